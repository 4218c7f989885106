// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
)

func version(t *testing.T, text string) *Version {
	t.Helper()
	v, ok := ParseVersion(text)
	if !ok {
		t.Fatalf("no version in %q", text)
	}
	return v
}

func TestJudge(t *testing.T) {
	t.Parallel()
	marked := func(id, server string) *Mark { return &Mark{Format: 1, ID: id, Server: server} }
	for name, test := range map[string]struct {
		volume   Volume
		record   Record
		server   string
		declared string
		want     string   // reason; empty if the server may start
		says     []string // texts that the message contains
	}{
		"new":                              {Volume{}, Record{}, "5.7.44", "", "", nil},
		"new, as declared":                 {Volume{}, Record{}, "5.7.44", "5.7", "", nil},
		"new, of another series":           {Volume{}, Record{}, "8.0.36", "5.7", ReasonServerVersion, []string{"MySQL 8.0.36", "spec.mysql.serverVersion", `"5.7"`}},
		"new, no data after a first start": {Volume{Mark: marked("a", "5.7.44")}, Record{}, "5.7.44", "", "", nil},
		"first start, not recorded yet":    {Volume{Mark: &Mark{Format: 2, ID: "a", Initialising: true}, HasData: true, HasTables: true}, Record{}, "5.7.44", "", "", nil},
		"of a MySQLCluster":                {Volume{OfMember: true, HasData: true, Data: Evidence{Dictionary: true}}, Record{}, "8.4.9", "", ReasonUnreadable, []string{"data-db-0", "member of a MySQLCluster", "spec.mysql"}},
		"of a MySQLCluster, no data yet":   {Volume{OfMember: true}, Record{}, "8.4.9", "", ReasonUnreadable, nil},
		"data without mark, recorded":      {Volume{HasData: true, Data: Evidence{Old: true}}, Record{Exists: true}, "5.7.44", "", "", nil},
		"data without mark, no record":     {Volume{HasData: true}, Record{}, "5.7.44", "", "", nil},
		"as recorded":                      {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "5.7.40", "", "", nil},
		"the ID is not recorded yet":       {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true}, "5.7.44", "", "", nil},
		"the volume is new":                {Volume{}, Record{Exists: true, ID: "a"}, "5.7.44", "", ReasonDataLost, []string{"data-db-0", "empty", "ConfigMap db-data"}},
		"the volume is new, no ID":         {Volume{}, Record{Exists: true}, "5.7.44", "", ReasonDataLost, nil},
		"the data was wiped":               {Volume{Mark: marked("a", "5.7.44")}, Record{Exists: true, ID: "a"}, "5.7.44", "", ReasonDataLost, []string{"empty"}},
		"another database's volume":        {Volume{Mark: marked("b", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "5.7.44", "", ReasonDataLost, []string{"mark is b", "expected is a"}},
		"not the recorded data, no mark":   {Volume{HasData: true}, Record{Exists: true, ID: "a"}, "5.7.44", "", ReasonDataLost, []string{"no mark"}},
		"the record was deleted":           {Volume{Mark: marked("b", "5.7.44"), HasData: true}, Record{}, "5.7.44", "", "", nil},
		"a newer series":                   {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "8.0.36", "", ReasonServerVersion, []string{"MySQL 8.0.36", "MySQL 5.7.44", "spec.mysql.image", "ConfigMap db-data", `"8.0"`}},
		"an older series":                  {Volume{Mark: marked("a", "8.4.2"), HasData: true}, Record{Exists: true, ID: "a"}, "8.0.36", "", ReasonServerVersion, nil},
		"a newer series, allowed":          {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a", AllowServer: "8.0"}, "8.0.36", "", "", nil},
		"another series than allowed":      {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a", AllowServer: "8.0"}, "8.4.2", "", ReasonServerVersion, nil},
		"another family":                   {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "5.7.1-MariaDB", "", ReasonServerVersion, nil},
		"MariaDB's data, MySQL":            {Volume{HasData: true, Data: Evidence{MariaDB: true}}, Record{}, "5.7.44", "", ReasonServerVersion, []string{"MariaDB"}},
		"MariaDB's data, MariaDB":          {Volume{HasData: true, Data: Evidence{MariaDB: true}}, Record{}, "10.11.19-MariaDB", "", "", nil},
		"5.7's data without mark, 8.0":     {Volume{HasData: true, Data: Evidence{Old: true}}, Record{}, "8.0.36", "", ReasonServerVersion, []string{"MySQL 5.7 or older"}},
		"8.x's data without mark, 5.7":     {Volume{HasData: true, Data: Evidence{Dictionary: true}}, Record{}, "5.7.44", "", ReasonServerVersion, nil},
		"8.x's data without mark, 8.4":     {Volume{HasData: true, Data: Evidence{Dictionary: true}}, Record{}, "8.4.2", "", "", nil},
		"8.0's data without mark, 8.4":     {Volume{HasData: true, Data: Evidence{Dictionary: true, Version: version(t, "8.0.36")}}, Record{}, "8.4.2", "", ReasonServerVersion, nil},
		"the server's version is unknown":  {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "", "5.7", "", nil},
		"a mark without a server":          {Volume{Mark: marked("a", ""), HasData: true}, Record{Exists: true, ID: "a"}, "8.0.36", "", "", nil},
		"replaced":                         {Volume{Mark: &Mark{Format: 1, ID: "a", ReplacedBy: "claim data-r2-db-0"}, HasData: true}, Record{Exists: true, ID: "a"}, "5.7.44", "", ReasonReplaced, []string{"data-r2-db-0"}},
		"replaced, the record was lost":    {Volume{Mark: &Mark{Format: 1, ID: "a", ReplacedBy: "x"}, HasData: true}, Record{}, "5.7.44", "", ReasonReplaced, nil},
		"replaced, as recorded":            {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a", ReplacedBy: "db-back"}, "5.7.44", "", ReasonReplaced, []string{"db-back", "db-data", "spec.mysql.acceptLoss"}},
		"replaced before it was used":      {Volume{}, Record{ReplacedBy: "db-back"}, "5.7.44", "", ReasonReplaced, nil},
		"a mark of a newer version":        {Volume{Mark: &Mark{Format: 2, ID: "a"}, HasData: true}, Record{}, "5.7.44", "", ReasonUnreadable, []string{"newer"}},
		"a mark that cannot be read":       {Volume{Mark: &Mark{}, HasData: true}, Record{}, "5.7.44", "", ReasonUnreadable, nil},
		"lost data, and another series":    {Volume{}, Record{Exists: true}, "8.0.36", "5.7", ReasonDataLost, nil},
		"declared, but the data is older":  {Volume{HasData: true, Data: Evidence{Old: true}}, Record{}, "8.0.36", "8.0", ReasonServerVersion, []string{"5.7 or older"}},
		"declared for a newer server":      {Volume{Mark: marked("a", "5.7.44"), HasData: true}, Record{Exists: true, ID: "a"}, "5.7.44", "8.0", ReasonServerVersion, []string{"serverVersion"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := Question{Volume: test.volume, Record: test.record, Declared: test.declared, Component: "spec.mysql", Claim: "data-db-0", RecordName: "db-data"}
			if test.server != "" {
				q.Server = version(t, test.server)
			}
			refusal := Judge(q)
			if refusal == nil {
				refusal = &Refusal{}
			}
			if refusal.Reason != test.want {
				t.Errorf("%s (%s), want %q", refusal.Reason, refusal.Message, test.want)
			}
			for _, word := range test.says {
				if !strings.Contains(refusal.Message, word) {
					t.Errorf("%q does not mention %q", refusal.Message, word)
				}
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Version{
		"mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))":               {5, 7, "5.7.44", false},
		"/usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)":     {8, 0, "8.0.36", false},
		"mysqld  Ver 8.4.2-log for Linux":                                                     {8, 4, "8.4.2-log", false},
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)": {10, 11, "10.11.19-MariaDB-0+deb12u1", true},
		"/usr/sbin/mysqld  Ver 9.7.4 for Linux on x86_64 ((Debian))":                          {9, 7, "9.7.4", false},
		"10.11.6-MariaDB": {10, 11, "10.11.6-MariaDB", true},
	} {
		if v, ok := ParseVersion(text); !ok || *v != want {
			t.Errorf("%q: %+v, want %+v", text, v, want)
		}
	}
	if v, ok := ParseVersion("there is none"); ok {
		t.Error(v)
	}
}

// lay creates a volume with these files.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		assert.NilError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return root
}

func TestReadVolume(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files   map[string]string
		hasData bool
		data    string
		mark    string // ID of the mark; "-" for no mark
	}{
		"nothing":                 {nil, false, "an unknown server", "-"},
		"a new file system":       {map[string]string{"lost+found/x": "", "mysql/x": ""}, false, "an unknown server", "-"},
		"5.7":                     {map[string]string{"mysql/ibdata1": "", "mysql/mysql/user.frm": "", "mysql/mysql_upgrade_info": "5.6.1"}, true, "MySQL 5.7 or older", "-"},
		"8.0":                     {map[string]string{"mysql/mysql.ibd": "", "mysql/mysql/general_log.CSV": ""}, true, "MySQL 8.0 or newer", "-"},
		"8.0, upgraded":           {map[string]string{"mysql/mysql.ibd": "", "mysql/mysql/x": "", "mysql/mysql_upgrade_info": "8.0.36\n"}, true, "MySQL 8.0.36", "-"},
		"8.4":                     {map[string]string{"mysql/mysql.ibd": "", "mysql/mysql/x": "", "mysql/mysql_upgrade_history": `{"file_format":"1","upgrade_history":[{"version":"8.0.36"},{"version":"8.4.2","maturity":"LTS"}]}`}, true, "MySQL 8.4.2", "-"},
		"MariaDB":                 {map[string]string{"mysql/aria_log_control": "", "mysql/mysql/user.frm": ""}, true, "MariaDB", "-"},
		"marked":                  {map[string]string{markFile: `{"format":1,"id":"abc"}`, "mysql/mysql/x": ""}, true, "an unknown server", "abc"},
		"a truncated mark":        {map[string]string{markFile: `{"format":1,"id`}, false, "an unknown server", ""},
		"a mark's temporary file": {map[string]string{"." + markFile + ".123": `{"format":1,"id":"abc"}`}, false, "an unknown server", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volume, err := ReadVolume(lay(t, test.files), "mysql")
			assert.NilError(t, err)
			id := "-"
			if volume.Mark != nil {
				id = volume.Mark.ID
			}
			if volume.HasData != test.hasData || volume.Data.String() != test.data || id != test.mark {
				t.Errorf("%+v (%s), mark %q", volume, volume.Data, id)
			}
		})
	}
}

func TestAVolumeKeepsItsID(t *testing.T) {
	t.Parallel()
	root := lay(t, nil)
	var id string
	for i, server := range []string{"5.7.44", "5.7.44", "", "8.0.36"} {
		volume, err := ReadVolume(root, "mysql")
		assert.NilError(t, err)
		var v *Version
		if server != "" {
			v = version(t, server)
		}
		mark, err := volume.Remember(root, v, Record{Exists: true})
		assert.NilError(t, err)
		if i > 0 && mark.ID != id || mark.ID == "" {
			t.Errorf("start %d: the ID is %q, want %q", i, mark.ID, id)
		}
		id = mark.ID
	}
	volume, _ := ReadVolume(root, "mysql")
	if want := (Mark{Format: 1, ID: id, Server: "8.0.36"}); *volume.Mark != want {
		t.Errorf("%+v, want %+v", *volume.Mark, want)
	}
	if other, err := (Volume{}).Remember(lay(t, nil), nil, Record{}); err != nil || other.ID == id {
		t.Errorf("two volumes have the ID %q (%v)", id, err)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
}

// A read-only volume is not marked, but the server starts.
func TestAVolumeThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	mark, err := (Volume{HasData: true}).Remember(filepath.Join(t.TempDir(), "gone"), nil, Record{})
	if err == nil || mark != nil {
		t.Errorf("%v, %v", mark, err)
	}
}

func TestReadRecord(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  Record
	}{
		"an empty ConfigMap": {map[string]string{"..data/x": ""}, Record{}},
		"of a claim":         {map[string]string{"claim": "uid"}, Record{Exists: true}},
		"of a mark":          {map[string]string{"claim": "uid", "id": "abc\n"}, Record{Exists: true, ID: "abc"}},
		"with a consent":     {map[string]string{"claim": "uid", "id": "abc", "allowServer": "8.0"}, Record{Exists: true, ID: "abc", AllowServer: "8.0"}},
	} {
		got, err := ReadRecord(lay(t, test.files))
		if err != nil || got != test.want {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, test.want)
		}
	}
	if got, err := ReadRecord(filepath.Join(t.TempDir(), "none")); err != nil || got != (Record{}) {
		t.Errorf("%+v (%v)", got, err)
	}
}

// The guard recognises a member's volume by the first file that the member's agent writes.
func TestVolumeOfAMember(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	before, err := ReadVolume(root, "mysql")
	assert.NilError(t, err)
	assert.Assert(t, !before.OfMember)
	assert.Equal(t, memberFile, volume.File)
	assert.NilError(t, os.WriteFile(filepath.Join(root, volume.File), []byte("{}"), 0o600))
	after, err := ReadVolume(root, "mysql")
	assert.NilError(t, err)
	assert.Assert(t, after.OfMember)
}

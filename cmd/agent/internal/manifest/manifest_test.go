// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"

	"d3os.com/d3os-operator/internal/contract"
)

// A store may have backups of several formats. An unknown kind is refused with NewerFormat, because a newer agent may have written it.
func TestDecodeBackup(t *testing.T) {
	t.Parallel()
	const id = "20260102T150405Z-0a1b2c3d"
	sum := strings.Repeat("a", 64)
	objects := `"objects":[{"name":"x","sha256":"` + sum + `","plainSha256":"` + sum + `"}]`
	for name, c := range map[string]struct {
		text   string
		reason contract.Reason
		onLog  bool
	}{
		"a dump":                    {`{"format":1,"id":"` + id + `","position":{"file":"b.1","offset":4},` + objects + `}`, "", true},
		"a dump without a log":      {`{"format":1,"id":"` + id + `",` + objects + `}`, "", false},
		"files":                     {`{"format":2,"base":"files","id":"` + id + `","position":{"file":"b.1","offset":4},` + objects + `}`, "", false},
		"files of one server":       {`{"format":2,"base":"physical","id":"` + id + `","position":{"file":"b.1","offset":4},` + objects + `}`, "", true},
		"an unknown form":           {`{"format":2,"base":"blocks","id":"` + id + `",` + objects + `}`, contract.ReasonNewerFormat, false},
		"a newer format":            {`{"format":3,"id":"` + id + `",` + objects + `}`, contract.ReasonNewerFormat, false},
		"no format":                 {`{"id":"` + id + `",` + objects + `}`, contract.ReasonDamaged, false},
		"another backup's manifest": {`{"format":1,"id":"20260102T150405Z-00000000",` + objects + `}`, contract.ReasonDamaged, false},
		"no object":                 {`{"format":1,"id":"` + id + `"}`, contract.ReasonDamaged, false},
		"a name with a folder":      {`{"format":1,"id":"` + id + `",` + strings.Replace(objects, `"x"`, `"../x"`, 1) + `}`, contract.ReasonDamaged, false},
	} {
		b, err := DecodeBackup(Folder(id)+Name, []byte(c.text))
		switch {
		case c.reason != "" && contract.ReasonOf(err) != c.reason, c.reason == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case err == nil && b.IsOnLog() != c.onLog:
			t.Errorf("%s: IsOnLog is %t", name, b.IsOnLog())
		}
	}
	if _, err := DecodeHead("binlog/x/head.json", []byte(`{"format":3}`)); contract.ReasonOf(err) != contract.ReasonNewerFormat {
		t.Errorf("a head of format 3: %v", err)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// A folder is renamed only if a first start was interrupted: the mark records the start, the operator has no record of the database, and no
// table belongs to a user.
func TestStartOver(t *testing.T) {
	t.Parallel()
	begun := Mark{Format: unfinishedFormat, ID: "abc", Initialising: true}
	partial := map[string]string{"mysql/ibdata1": "x", "mysql/mysql/user.frm": "x", "mysql/sys/sys_config.ibd": "x", "mysql/#innodb_redo/x": "x", "mysql/undo_001": "x", "mysql/mysql.ibd": "x"}
	for name, c := range map[string]struct {
		mark   Mark
		files  map[string]string
		record Record
		locked bool
		over   bool
	}{
		"killed":                           {begun, partial, Record{}, false, true},
		"killed before it made a schema":   {begun, map[string]string{"mysql/ibdata1": "x"}, Record{}, false, true},
		"killed while it made the schemas": {begun, map[string]string{"mysql/platform/db.opt": "x"}, Record{}, false, true},
		"a release series is allowed":      {begun, partial, Record{AllowServer: "8.0"}, false, true},
		"the data folder is empty":         {begun, nil, Record{}, false, false},
		"the database was ready":           {begun, partial, Record{Exists: true}, false, false},
		"the database was replaced":        {begun, partial, Record{ReplacedBy: "other"}, false, false},
		"a table":                          {begun, map[string]string{"mysql/mysql/user.frm": "x", "mysql/platform/t.ibd": "x"}, Record{}, false, false},
		"a table in a link":                {begun, map[string]string{"mysql/mysql/user.frm": "x", "mysql/link": "->"}, Record{}, false, false},
		"tables of another engine":         {begun, map[string]string{"mysql/mysql/user.frm": "x", "mysql/#rocksdb/1.sst": "x"}, Record{}, false, false},
		"a tablespace of several tables":   {begun, map[string]string{"mysql/mysql/user.frm": "x", "mysql/many.ibd": "x"}, Record{}, false, false},
		"a file with the name of a schema": {begun, map[string]string{"mysql/sys": "x"}, Record{}, false, true},
		"a server uses the folder":         {begun, partial, Record{}, true, false},
		"the mark is not of a first start": {Mark{Format: 1, ID: "abc"}, partial, Record{}, false, false},
		"a restore has begun":              {Mark{Format: 2, ID: "abc", Restoring: "x", Initialising: true}, partial, Record{}, false, false},
		"a restore is complete":            {Mark{Format: 1, ID: "abc", RestoredFrom: "x"}, partial, Record{}, false, false},
		"replaced":                         {Mark{Format: 2, ID: "abc", ReplacedBy: "x", Initialising: true}, partial, Record{}, false, false},
		"a mark of a newer version":        {Mark{Format: 3, ID: "abc", Initialising: true}, partial, Record{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := lay(t, c.files)
			assert.NilError(t, write(root, c.mark))
			data := filepath.Join(root, "mysql")
			if c.files["mysql/link"] != "" {
				assert.NilError(t, os.Remove(filepath.Join(data, "link")))
				assert.NilError(t, os.Symlink(t.TempDir(), filepath.Join(data, "link")))
			}
			if c.locked { // another process must hold the lock: a process does not block itself
				file, err := os.OpenFile(filepath.Join(data, "ibdata1"), os.O_RDWR, 0)
				assert.NilError(t, err)
				defer file.Close()
				assert.NilError(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
			}
			volume, err := ReadVolume(root, "mysql")
			assert.NilError(t, err)
			after, aside, err := volume.StartOver(root, "mysql", c.record)
			assert.NilError(t, err)
			if (aside != "") != c.over || c.over && !after.IsEmpty {
				t.Fatalf("%+v: the data folder was renamed to %q", volume, aside)
			}
			if !c.over {
				assert.DeepEqual(t, after, volume)
				return
			}
			for file := range c.files { // no file is lost
				_, err := os.Stat(filepath.Join(aside, file[len("mysql/"):]))
				assert.NilError(t, err)
			}
			again, err := ReadVolume(root, "mysql")
			assert.NilError(t, err)
			assert.DeepEqual(t, again, after)
			mark, err := again.Remember(root, nil, c.record)
			assert.NilError(t, err)
			assert.DeepEqual(t, *mark, c.mark)
		})
	}
}

// The guard marks the volume as initialising when it lets a server start on an empty folder. It removes this mark once
// the operator has a record of the database.
func TestMarkOfAFirstStart(t *testing.T) {
	t.Parallel()
	root := lay(t, nil)
	for i, c := range []struct {
		files  map[string]string
		record Record
		want   bool
	}{
		{nil, Record{}, true}, {nil, Record{}, true}, {map[string]string{"mysql/mysql/x": "", "mysql/platform/t.ibd": ""}, Record{}, true},
		{nil, Record{Exists: true}, false}, {nil, Record{}, false},
	} {
		for name := range c.files {
			assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
		}
		volume, err := ReadVolume(root, "mysql")
		assert.NilError(t, err)
		if refusal := Judge(Question{Volume: volume}); refusal != nil {
			t.Fatal(refusal)
		}
		mark, err := volume.Remember(root, nil, c.record)
		if err != nil || mark.Initialising != c.want || mark.Initialising != (mark.Format == unfinishedFormat) {
			t.Errorf("start %d: %+v (%v)", i, mark, err)
		}
	}
}

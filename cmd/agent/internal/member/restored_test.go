// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"
)

// restoredIn puts data of a backup on a volume, as a restore does.
func restoredIn(t *testing.T, dir, uid string) {
	t.Helper()
	folder := Restored(dir)
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "identity"), []byte("new/a"), 0o600),
		os.MkdirAll(filepath.Join(dir, "notes-"+uid), 0o755), NoteRestored(filepath.Join(dir, "notes-"+uid))); err != nil {
		t.Fatal(err)
	}
}

// The agent that begins a cluster with the data of a backup is killed between any two writes. Whatever the next pods do, the
// cluster begins with that data, and never empty.
func TestKilledAtEachPointOfABirth(t *testing.T) {
	t.Parallel()
	for point := 1; ; point++ {
		dir := t.TempDir()
		restoredIn(t, dir, "uid")
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), "MEMBER_TEST_CRASH="+strconv.Itoa(point), "MEMBER_TEST_DIR="+dir, "MEMBER_TEST_TICKET=seed")
		ended := child.Run() == nil
		if !ended {
			next := fake{}.Data(filepath.Join(dir, "data"))
			free, err := IsFree(dir, pod, next)
			if err != nil || free == next.Exists {
				t.Errorf("point %d: the volume counts as free: %t, with data %+v (%v)", point, free, next, err)
			}
			var started string
			a := agentIn(dir, "next", "seed", &started)
			if free { // what the restore of the next pod does: the data is there
				assert.NilError(t, NoteRestored(a.Notes))
			}
			if err := a.Run(t.Context()); err != nil {
				t.Errorf("point %d: %v", point, err)
			}
		}
		if data := (fake{}).Data(filepath.Join(dir, "data")); data.Identity != (Identity{"new", "a"}) {
			t.Errorf("point %d: the cluster has begun with %+v", point, data)
		}
		if _, err := os.Stat(Restored(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("point %d: the restored data is there a second time (%v)", point, err)
		}
		if ended {
			if point < 8 {
				t.Errorf("%d points were tried", point-1)
			}
			t.Logf("killed at %d points", point-1)
			return
		}
	}
}

// A pod that was to begin with the data of a backup does not begin without it.
func TestNoBirthWithoutItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var started string
	a := agentIn(dir, "uid", "seed", &started)
	assert.NilError(t, NoteRestored(a.Notes))
	if err := a.Run(t.Context()); err == nil || started != "" {
		t.Errorf("it started with %q: %v", started, err)
	}
	if mark, err := ReadMark(dir); mark != nil || err != nil {
		t.Errorf("the volume is marked: %+v (%v)", mark, err)
	}
}

// A volume on which a member has been, or which is another pod's, is no place for a restore.
func TestFreeVolumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark string
		data Data
		want bool
	}{
		"empty":                      {"", Data{}, true},
		"a start that broke off":     {`{"format":1,"pod":"data/etcd-1","ticket":"seed"}`, Data{}, true},
		"data":                       {"", Data{Exists: true}, false},
		"a part of data":             {"", Data{Leftovers: true}, false},
		"data that is gone":          {`{"format":1,"pod":"data/etcd-1","cluster":"c","member":"a"}`, Data{}, false},
		"a volume of another pod":    {`{"format":1,"pod":"data/etcd-2","ticket":"join:b"}`, Data{}, false},
		"a mark that cannot be read": {`{`, Data{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.mark != "" {
				assert.NilError(t, os.WriteFile(filepath.Join(dir, MarkFile), []byte(c.mark), 0o600))
			}
			if free, _ := IsFree(dir, pod, c.data); free != c.want {
				t.Errorf("it is free: %t", free)
			}
		})
	}
}

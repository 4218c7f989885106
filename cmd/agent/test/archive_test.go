// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// archived starts a server, makes a backup, and archives three later files of the log.
func archived(t *testing.T) (*rig.Server, *store.Folder, *age.X25519Identity, *archiver) {
	t.Helper()
	s, identity, to := start(t, server.MariaDB), key(t), folder(t)
	a := archive(s, to, identity, time.Second)
	t.Cleanup(func() { a.stop(); a.done.Wait() })
	if _, _, err := backup.Run(t.Context(), options(s, to, identity)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for j := range 10 {
			s.Exec(fmt.Sprintf("INSERT INTO shop.items VALUES (%d, 1)", 10*i+j))
		}
		a.catchUp(t)
		s.Exec("FLUSH BINARY LOGS")
	}
	a.catchUp(t)
	return s, to, identity, a
}

// catchUp waits until the archive has everything that was committed before the call.
func (a *archiver) catchUp(t *testing.T) {
	t.Helper()
	now := time.Now()
	rig.Until(t, "the archive", func() bool { return a.reached().After(now) })
}

func segments(t *testing.T, to store.Store) []string {
	t.Helper()
	infos, err := to.List(t.Context(), manifest.BinLogs)
	assert.NilError(t, err)
	var names []string
	for _, info := range infos {
		if strings.HasSuffix(info.Name, ".age") {
			names = append(names, info.Name)
		}
	}
	return names
}

// The test removes or damages a segment or its manifest. A restore that needs the segment fails.
func TestArchiveDamaged(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	s, to, identity, a := archived(t)
	a.stop()
	a.done.Wait()
	got, out, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{}, identity)
	assert.NilError(t, err)
	same(t, got, s, out)
	if len(got["shop.items"]) != 30 {
		t.Fatalf("%d rows of 30", len(got["shop.items"]))
	}
	names := segments(t, to)
	if len(names) < 4 {
		t.Fatalf("only %d segments", len(names))
	}
	heads, err := binlog.Heads(t.Context(), to)
	if err != nil || len(heads) == 0 {
		t.Fatal(heads, err)
	}
	reached := heads[0].Position
	needed, last := "", ""
	for _, name := range names { // a restore does not need an empty segment
		if text := read(t, to, name); len(text) > 600 && name > needed {
			needed = name
		}
		record := strings.TrimSuffix(name, ".zst.age") + ".json"
		segment, err := manifest.DecodeSegment(record, read(t, to, record))
		assert.NilError(t, err)
		// The archive may have ended before it recorded the position after the last segment.
		if binlog.Before(contract.Position{File: segment.File, Offset: segment.From}, reached) {
			last = max(last, name)
		}
	}
	record := strings.TrimSuffix(needed, ".zst.age") + ".json"
	for what, change := range map[string]func(){
		"a byte":       func() { write(t, to, needed, flip(read(t, to, needed))) },
		"its end":      func() { write(t, to, needed, read(t, to, needed)[:300]) },
		"the object":   func() { remove(t, to, needed) },
		"the manifest": func() { remove(t, to, record) },
		"both":         func() { remove(t, to, needed); remove(t, to, record) },
		"the content":  func() { write(t, to, needed, read(t, to, names[0])) },
	} {
		object, description := read(t, to, needed), read(t, to, record)
		change()
		_, _, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{}, identity)
		if contract.ReasonOf(err) != contract.ReasonDamaged {
			t.Errorf("%s of %s is missing or changed: %v", what, needed, err)
		}
		write(t, to, needed, object)
		write(t, to, record, description)
	}
	remove(t, to, last)
	remove(t, to, strings.TrimSuffix(last, ".zst.age")+".json")
	if _, _, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{}, identity); contract.ReasonOf(err) != contract.ReasonDamaged {
		t.Errorf("the last segment is missing: %v", err)
	}
}

func read(t *testing.T, s store.Store, name string) []byte {
	t.Helper()
	text, err := store.ReadAll(t.Context(), s, name)
	assert.NilError(t, err)
	return text
}

func write(t *testing.T, s store.Store, name string, content []byte) {
	t.Helper()
	assert.NilError(t, s.Replace(t.Context(), name, content))
}

func remove(t *testing.T, s store.Store, name string) {
	t.Helper()
	assert.NilError(t, s.Delete(t.Context(), name))
}

func flip(content []byte) []byte {
	content = bytes.Clone(content)
	content[len(content)-20] ^= 1
	return content
}

// The archive of an idle server can be restored up to now, and gets no new objects. Another log begins a new timeline.
func TestArchiveIdleAndBegunAgain(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	s, to, identity, a := archived(t)
	rig.Until(t, "a time in which the server logs nothing", func() bool { // after a new file has begun, the server writes one more checkpoint
		end := s.LogEnd()
		a.catchUp(t)
		before := len(segments(t, to))
		a.catchUp(t)
		a.catchUp(t)
		after := len(segments(t, to))
		if s.LogEnd() != end {
			return false
		}
		if after != before {
			t.Errorf("%d new segments of an idle server", after-before)
		}
		return true
	})
	moment := a.reached()
	if lag := time.Since(moment); lag > time.Minute {
		t.Errorf("the archive is %s behind", lag)
	}
	if _, _, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{Time: moment}, identity); err != nil {
		t.Error(err)
	}
	reasons := func() string {
		heads, err := binlog.Heads(t.Context(), to)
		assert.NilError(t, err)
		text := ""
		for _, head := range heads {
			text = head.Reason + " " + text
		}
		return text
	}
	defer func() {
		if t.Failed() {
			t.Log(reasons(), a.reached(), a.failures())
		}
	}()
	s.Exec("RESET MASTER", "INSERT INTO shop.items VALUES (1000, 1)")
	rig.Until(t, "a new timeline", func() bool { return reasons() == "First Reset " })
	a.catchUp(t)
	// Log files that were removed while no archive was running leave a gap.
	a.stop()
	a.done.Wait()
	s.Exec("FLUSH BINARY LOGS", "INSERT INTO shop.items VALUES (1001, 1)", "FLUSH BINARY LOGS")
	rig.Until(t, "the files are removed", func() bool { // the server keeps a file that it still sends to the stopped archive
		s.Exec("PURGE BINARY LOGS TO 'binlog.000003'")
		_, err := os.Stat(filepath.Join(s.Data, "binlog.000002"))
		return os.IsNotExist(err)
	})
	b := archive(s, to, identity, time.Second)
	defer func() { b.stop(); b.done.Wait() }()
	rig.Until(t, "a new timeline", func() bool { return reasons() == "First Reset Gap " })
	b.catchUp(t)
	if _, _, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{Time: time.Now()}, identity); contract.ReasonOf(err) != contract.ReasonNotFound {
		t.Errorf("the timeline of the backup has ended, but the error is: %v", err)
	}
}

// A killed restore leaves a volume on which no server starts. The next restore starts from the beginning and completes.
func TestRestoreBrokenOff(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	s, identity, to := start(t, server.MariaDB), key(t), folder(t)
	if _, _, err := backup.Run(t.Context(), options(s, to, identity)); err != nil {
		t.Fatal(err)
	}
	entry, err := catalogue.Find(t.Context(), to, "latest")
	assert.NilError(t, err)
	volume := t.TempDir()
	flags := []string{"restore", "--volume=" + volume, "--report=", strings.Replace(to.String(), "folder ", "--folder=", 1)}
	marked := func() bool {
		text, err := os.ReadFile(filepath.Join(volume, "d3os-data.json"))
		return err == nil && strings.Contains(string(text), `"restoring":"`+entry.ID)
	}
	guarded := func() int {
		guard, _ := agent(t, s.Flavour, nil, "guard", "--volume="+volume, "--report="+filepath.Join(t.TempDir(), "report"))
		_ = guard.Run() // only the exit code counts
		return guard.ProcessState.ExitCode()
	}
	for _, what := range []string{"ibdata1", "mysql/db.frm", "shop"} {
		cmd, _ := agent(t, s.Flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, flags...)
		assert.NilError(t, cmd.Start())
		rig.Until(t, what, func() bool { _, err := os.Stat(filepath.Join(volume, "mysql", what)); return err == nil })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !marked() || guarded() != 3 {
			t.Fatalf("killed at %s: marked %t, the guard's exit code is %d", what, marked(), guarded())
		}
	}
	cmd, out := agent(t, s.Flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, flags...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %+v", err, result(t, out))
	}
	if marked() || guarded() != 0 {
		t.Fatalf("restored: marked %t, the guard's exit code is %d", marked(), guarded())
	}
	if r := result(t, out); r.Rows != entry.Manifest.Rows() || r.Tables != len(entry.Manifest.Tables) {
		t.Errorf("%+v", r)
	}
}

// After the key was replaced, a restore to a point in time after the next backup needs only the new key. A restore to an earlier time needs
// the old key, as --validate reports.
func TestKeyIsReplaced(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, to, old, fresh := start(t, flavour), folder(t), key(t), key(t)
			a := archive(s, to, old, time.Second)
			made, _, err := backup.Run(t.Context(), options(s, to, old))
			assert.NilError(t, err)
			s.Exec("INSERT INTO shop.items VALUES (1, 1)")
			a.catchUp(t)
			a.stop()
			a.done.Wait()
			a = archive(s, to, fresh, time.Second)
			defer func() { a.stop(); a.done.Wait() }()
			s.Exec("INSERT INTO shop.items VALUES (2, 2)")
			a.catchUp(t)
			base := func() string {
				heads, err := binlog.Heads(t.Context(), to)
				assert.NilError(t, err)
				id, err := catalogue.Base(t.Context(), to, heads[0])
				assert.NilError(t, err)
				return id
			}
			assert.Equal(t, base(), "", "backup %s needs another key than the segments that were archived after it", made.ID)
			source := restore.Source{Store: to, Backup: made, Identities: []age.Identity{old}}
			_, err = restore.Validate(t.Context(), source, rig.Programs(t, flavour), &restore.Until{})
			assert.Equal(t, contract.ReasonOf(err), contract.ReasonWrongKey)
			source.Identities = append(source.Identities, fresh)
			_, err = restore.Validate(t.Context(), source, rig.Programs(t, flavour), &restore.Until{})
			assert.NilError(t, err)
			made, _, err = backup.Run(t.Context(), options(s, to, fresh))
			assert.NilError(t, err)
			s.Exec("INSERT INTO shop.items VALUES (3, 3)")
			a.catchUp(t)
			assert.Equal(t, base(), made.ID)
			got, out, err := attempt(t.Context(), t, flavour, to, "latest", &restore.Until{}, fresh)
			assert.NilError(t, err)
			same(t, got, s, out)
			assert.Equal(t, len(got["shop.items"]), 3)
		})
	}
}

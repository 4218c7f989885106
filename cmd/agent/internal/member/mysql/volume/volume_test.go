// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

const (
	pod    = "data/mysql-1"
	older  = "11111111-71ca-11e1-9e33-c80aa9429562"
	newer  = "22222222-71ca-11e1-9e33-c80aa9429562"
	ticket = "join:7:0:" + newer
)

func in(dir string) *Volume { return &Volume{Root: dir, Data: "mysql", Pod: pod} }

// TestMain runs the tests. If VOLUME_TEST_CRASH is set, it creates new data instead, and the process is killed at the point with this
// number.
func TestMain(m *testing.M) {
	crash := os.Getenv("VOLUME_TEST_CRASH")
	if crash == "" {
		os.Exit(m.Run())
	}
	var err error
	at, err = rig.KilledAt(crash)
	if err == nil {
		err = makers[os.Getenv("VOLUME_TEST_MAKER")](in(os.Getenv("VOLUME_TEST_DIR")))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// makeNew creates new data as a copy of another member does. If the data was complete before a crash, makeNew uses it.
func makeNew(v *Volume) error {
	if err := v.Settle(); err != nil {
		return err
	}
	if n, err := v.Notes(); err != nil || n.Ticket == ticket {
		return err
	}
	if err := v.Prepare(); err != nil {
		return err
	}
	for _, text := range []string{"half", "whole"} {
		if err := put(v.New(), newer, text); err != nil {
			return err
		}
		at("data " + text)
	}
	return v.Replace(newer, ticket, 7)
}

// makers maps each source of new data to the function that creates the data.
var makers = map[string]func(*Volume) error{"copy": makeNew, "backup": restore}

// restore creates new data from a backup: it restores the backup, and then the member begins with this data.
func restore(v *Volume) error {
	if err := v.Settle(); err != nil {
		return err
	}
	if n, err := v.Notes(); err != nil || n.Ticket == ticket {
		return err
	}
	may, err := v.MayRestore()
	if err != nil {
		return err
	}
	if may {
		if err := os.RemoveAll(v.Restoring()); err != nil {
			return err
		}
		for _, text := range []string{"half", "whole"} {
			if err := put(v.Restoring(), "", text); err != nil {
				return err
			}
			at("restored " + text)
		}
		if err := v.Restore("20260102T150405Z-0a1b2c3d"); err != nil {
			return err
		}
	}
	folder, is, err := v.Restored()
	if err != nil || !is {
		return errors.Join(errors.New("nothing was restored"), err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "rows")); err != nil || string(text) != "whole" {
		return fmt.Errorf("the member begins with the data %q: %w", text, err)
	}
	if err := put(folder, newer, "whole"); err != nil { // as if a server had run
		return err
	}
	at("a server has run")
	return v.Begin(newer, ticket, 7)
}

// put writes the data of a server to a folder.
func put(folder, server, text string) error {
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "auto.cnf"), []byte("[auto]\nserver-uuid="+server+"\n"), 0o600),
		os.WriteFile(filepath.Join(folder, "rows"), []byte(text), 0o600))
}

func refused(t *testing.T, err error) {
	t.Helper()
	if contract.ReasonOf(err) != contract.ReasonRefused {
		t.Errorf("the order was not refused: %v", err)
	}
}

// The agent is killed at each point of creating new data. Incomplete data never becomes the member's data, the old data still exists, the
// promises hold, and the next attempt completes the new data.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]Notes{
		"an empty volume":        {},
		"an empty volume, noted": {Pod: pod},
		"lost data":              {Pod: pod, Server: older, Promised: 4, Revision: 6},
		"older data":             {Pod: pod, Server: older, Promised: 4, Revision: 6},
		"a backup":               {},
		"a backup, noted":        {Pod: pod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points, maker := 1, "copy"
			if strings.HasPrefix(name, "a backup") {
				maker = "backup"
			}
			for ; !killedAt(t, points, maker, first, name == "older data"); points++ {
				if points > 50 {
					t.Fatal("there are more points than expected")
				}
			}
			if points < 10 {
				t.Errorf("only %d points were tested", points-1)
			}
			t.Logf("killed at %d points", points-1)
		})
	}
}

// killedAt kills the agent at one point of creating new data, and checks the volume. It returns true if no such point exists.
func killedAt(t *testing.T, point int, maker string, first Notes, hasData bool) bool {
	t.Helper()
	v := in(t.TempDir())
	if first != (Notes{}) {
		assert.NilError(t, v.write(first))
	}
	if hasData {
		assert.NilError(t, put(v.Folder(), older, "old"))
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "VOLUME_TEST_CRASH="+strconv.Itoa(point), "VOLUME_TEST_DIR="+v.Root, "VOLUME_TEST_MAKER="+maker)
	out, err := child.CombinedOutput()
	if err != nil && child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the agent ended with %v: %s", err, out)
	}
	looksRight(t, fmt.Sprintf("killed at point %d", point), v, first, hasData)
	assert.NilError(t, makers[maker](v))
	assert.NilError(t, makers[maker](v))
	c := looksRight(t, fmt.Sprintf("after point %d", point), v, first, hasData)
	assert.DeepEqual(t, c, Contents{Kind: Own, Notes: Notes{Format: 1, Pod: pod, Server: newer, Ticket: ticket, Promised: first.Promised, Revision: 7}})
	return err == nil
}

func looksRight(t *testing.T, when string, v *Volume, first Notes, hasData bool) Contents {
	t.Helper()
	c, err := v.Look()
	assert.NilError(t, err, when)
	assert.NilError(t, v.Settle(), when)
	text, _ := os.ReadFile(filepath.Join(v.Folder(), "rows")) // the file may not exist
	aside, _ := filepath.Glob(filepath.Join(v.Root, "mysql.set-aside-"+older+"-*/rows"))
	isNew := c.Notes.Ticket == ticket
	want := map[bool]Kind{true: Own, false: Empty}[isNew || hasData]
	if !isNew && !hasData && first.Server != "" {
		want = Lost
	}
	switch {
	case c.Kind != want:
		t.Errorf("%s: the volume is %+v, want %s", when, c, want)
	case isNew && string(text) != "whole", !isNew && hasData && string(text) != "old", !isNew && !hasData && text != nil:
		t.Errorf("%s: the member's data is %q, the ticket was used: %v", when, text, isNew)
	case isNew && hasData && len(aside) != 1:
		t.Errorf("%s: the former data is in %v", when, aside)
	case c.Notes.Promised != first.Promised || c.Notes.Revision < first.Revision:
		t.Errorf("%s: the promises were %+v, now they are %+v", when, first, c.Notes)
	}
	return c
}

// A promise holds after a restart. Orders of older epochs and revisions are refused.
func TestTake(t *testing.T) {
	t.Parallel()
	v := in(t.TempDir())
	assert.NilError(t, v.Take(mysqlmember.Order{Epoch: 2, Revision: 5}, ""))
	refused(t, v.Take(mysqlmember.Order{Epoch: 1, Revision: 6}, ""))
	refused(t, v.Take(mysqlmember.Order{Epoch: 2, Revision: 4}, ""))
	assert.NilError(t, v.Take(mysqlmember.Order{Epoch: 2, Revision: 5}, "primary:2:5:1"))
	refused(t, v.Take(mysqlmember.Order{Epoch: 2, Revision: 5}, "primary:2:5:1"))
	assert.NilError(t, v.Take(mysqlmember.Order{Epoch: 3, Revision: 5}, ""))
	for _, o := range []mysqlmember.Order{{Revision: 9}, {Epoch: 9}} {
		assert.Equal(t, contract.ReasonOf(v.Take(o, "")), contract.ReasonUsage)
	}
	n, err := v.Notes()
	assert.NilError(t, err)
	assert.Equal(t, n, Notes{Format: 1, Pod: pod, Ticket: "primary:2:5:1", Promised: 3, Revision: 5})

	// If the notes cannot be read, the member promises nothing.
	for _, text := range []string{"", "{", `{"format":2}`, `{}`} {
		assert.NilError(t, os.WriteFile(filepath.Join(v.Root, File), []byte(text), 0o600))
		assert.ErrorContains(t, v.Take(mysqlmember.Order{Epoch: 4, Revision: 5}, ""), "read the promises in", text)
	}
	assert.ErrorContains(t, in(filepath.Join(v.Root, "gone")).Take(mysqlmember.Order{Epoch: 1, Revision: 1}, ""), "write the promises in")
}

// Data belongs to the member only if the notes name this pod and the server of the data. Otherwise nothing on the volume is written or
// removed.
func TestForeign(t *testing.T) {
	t.Parallel()
	const ours = `{"format":1,"pod":"` + pod + `"`
	for name, c := range map[string]struct{ notes, data, fresh string }{
		"data without notes":        {data: older},
		"new data without notes":    {fresh: older},
		"notes of a newer agent":    {notes: `{"format":2,"pod":"` + pod + `"}`, data: older},
		"damaged notes":             {notes: "{", data: older},
		"another pod's":             {notes: `{"format":1,"pod":"data/mysql-2","server":"` + older + `"}`, data: older},
		"another pod's, empty":      {notes: `{"format":1,"pod":"data/mysql-2"}`},
		"another server's data":     {notes: ours + `,"server":"` + older + `"}`, data: newer},
		"data that was never noted": {notes: ours + "}", data: older},
		"no UUID":                   {notes: ours + `,"server":"` + older + `"}`, data: "\nx"},
		"new data that is gone":     {notes: ours + `,"server":"` + older + `","next":"` + newer + `"}`, data: older},
		"another server's new data": {notes: ours + `,"server":"` + older + `","next":"` + newer + `"}`, data: older, fresh: older},
	} {
		v := in(t.TempDir())
		if c.notes != "" {
			assert.NilError(t, os.WriteFile(filepath.Join(v.Root, File), []byte(c.notes), 0o600))
		}
		for folder, server := range map[string]string{v.Folder(): c.data, v.New(): c.fresh} {
			if server != "" {
				assert.NilError(t, put(folder, strings.TrimPrefix(server, "\n"), "rows"))
			}
		}
		before := listing(t, v.Root)
		got, err := v.Look()
		if err != nil || got.Kind != Foreign || got.Why == "" {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		refused(t, v.Prepare())
		if strings.Contains(c.notes, "next") {
			refused(t, v.Settle())
		}
		if err := v.Replace(older, ticket, 9); err == nil {
			t.Errorf("%s: the data was replaced", name)
		}
		assert.Equal(t, listing(t, v.Root), before, name)
	}
}

func listing(t *testing.T, root string) string {
	t.Helper()
	text := ""
	assert.NilError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		text += path + ": " + string(content) + "\n"
		return err
	}))
	return text
}

// A copy whose ticket is older than the last accepted order does not replace the data.
func TestOlderCopy(t *testing.T) {
	t.Parallel()
	v := in(t.TempDir())
	assert.NilError(t, errors.Join(v.write(Notes{Pod: pod, Server: older}), put(v.Folder(), older, "old"), v.Prepare(), put(v.New(), newer, "whole"), v.Take(mysqlmember.Order{Epoch: 1, Revision: 8}, "")))
	refused(t, v.Replace(newer, ticket, 7))
	assert.Equal(t, contract.ReasonOf(v.Replace(older, ticket, 8)), contract.ReasonFailed)
	c := looksRight(t, "after the refusal", v, Notes{Promised: 1, Server: older}, true)
	assert.Equal(t, c.Notes.Server, older)
}

// A second agent waits until the first one and its server have ended.
func TestLock(t *testing.T) {
	t.Parallel()
	v := in(t.TempDir())
	first, err := v.Lock(t.Context())
	assert.NilError(t, err)
	server := exec.CommandContext(t.Context(), "cat")
	server.ExtraFiles = []*os.File{first}
	stdin, err := server.StdinPipe()
	assert.NilError(t, err)
	assert.NilError(t, errors.Join(server.Start(), first.Close()))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // the lock is held longer than the second agent waits
	defer cancel()
	_, err = v.Lock(ctx)
	assert.Equal(t, contract.ReasonOf(err), contract.ReasonBusy)
	assert.NilError(t, errors.Join(stdin.Close(), server.Wait()))
	second, err := v.Lock(t.Context())
	assert.NilError(t, err)
	assert.NilError(t, second.Close())
}

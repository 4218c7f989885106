// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
)

// fake is a server. Its data is a file "identity" with the text CLUSTER/MEMBER.
type fake struct{ peers Peers }

func (fake) Inspect(string) (string, Position) { return "", Position{} }
func (fake) Follow(string) func() (agreed, last Position) {
	return func() (agreed, last Position) { return Position{}, Position{} }
}

func (fake) Data(folder string) Data {
	text, err := os.ReadFile(filepath.Join(folder, "identity"))
	if err != nil {
		return Data{}
	}
	cluster, id, _ := strings.Cut(string(text), "/")
	return Data{Exists: true, Identity: Identity{cluster, id}}
}

func (f fake) Peers(context.Context) Peers { return f.peers }
func (fake) PeerURL() string               { return peerURL }

func (fake) Command(_ Decision, ticket Ticket, folder string) (string, []string, []string, error) {
	return "server", []string{"server", ticket.Text, folder}, nil, nil
}

// agentIn returns the agent of a pod with this UID and this ticket, on the volume dir. Instead of a start of the server, the agent stores
// the ticket's text in started.
func agentIn(dir, uid, ticket string, started *string) *Agent {
	notes := filepath.Join(dir, "notes-"+uid)
	file := filepath.Join(notes, "ticket")
	if err := errors.Join(os.MkdirAll(notes, 0o755), os.WriteFile(file, []byte(ticket), 0o600)); err != nil {
		panic(err)
	}
	return &Agent{
		Pod: pod, PodUID: uid, Volume: dir, Data: "data", Ticket: file, Notes: notes, Server: fake{running()}, Log: io.Discard,
		exec: func(_ string, argv, _ []string) error {
			*started = argv[1]
			return nil
		},
	}
}

// TestMain runs the tests. If MEMBER_TEST_CRASH is set, it runs an agent instead, which is killed at the point with this number.
func TestMain(m *testing.M) {
	crash := os.Getenv("MEMBER_TEST_CRASH")
	if crash == "" {
		os.Exit(m.Run())
	}
	var err error
	at, err = rig.KilledAt(crash)
	var started string
	if err == nil {
		err = agentIn(os.Getenv("MEMBER_TEST_DIR"), "uid", os.Getenv("MEMBER_TEST_TICKET"), &started).Run(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(started)
	os.Exit(0)
}

// The agent is killed between any two writes of a start. The container restarts. The agent then uses the ticket only if it is still
// unused, and starts without a ticket only on a volume with data. Earlier data still exists. A new pod starts the server even with a
// ticket of the same text.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	const marked = `{"format":1,"pod":"data/etcd-1","cluster":"c","member":`
	for name, c := range map[string]struct {
		files  map[string]string
		ticket string
		data   bool // the volume has data before the start
	}{
		"seed":                      {nil, "seed", false},
		"join":                      {nil, "join:b", false},
		"join after a loss of data": {map[string]string{MarkFile: marked + `"a"}`}, "join:b", false},
		"join after a removal":      {map[string]string{MarkFile: marked + `"f"}`, "data/identity": "c/f"}, "join:b", false},
		"force":                     {map[string]string{MarkFile: marked + `"a"}`, "data/identity": "c/a"}, "force:1", true},
		"start on existing data":    {map[string]string{MarkFile: `{"format":1,"pod":"data/etcd-1","ticket":"join:b"}`, "data/identity": "c/b"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := 1
			for ; !killedAt(t, points, c.files, c.ticket, c.data); points++ {
				if points > 50 {
					t.Fatal("there are more points than expected")
				}
			}
			if c.ticket != "" && points < 8 {
				t.Errorf("only %d points were tested", points-1)
			}
			t.Logf("killed at %d points", points-1)
		})
	}
}

// killedAt kills an agent at one point of its start. It then checks the next agent of the same pod, and the agent of the next pod. It
// returns true if the start has no such point.
func killedAt(t *testing.T, point int, files map[string]string, ticket string, data bool) bool {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		assert.NilError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)))
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "MEMBER_TEST_CRASH="+strconv.Itoa(point), "MEMBER_TEST_DIR="+dir, "MEMBER_TEST_TICKET="+ticket)
	out, err := child.CombinedOutput()
	if err == nil {
		return true
	}
	if !bytes.Equal(out, nil) || child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the agent ended with %v: %s", err, out)
	}
	var started string
	again := agentIn(dir, "uid", ticket, &started)
	s, err := again.look(t.Context())
	assert.NilError(t, err)
	switch d := Decide(s); {
	case d.Start != "" && s.used():
		t.Errorf("point %d: the agent used the ticket twice: %+v", point, d)
	case d.Reason == "" && d.Start == "" && !data:
		t.Errorf("point %d: the agent starts without a ticket: %+v", point, d)
	case d.Reason != "" && d.Reason != TicketUsed && d.Reason != Removed:
		t.Errorf("point %d: the agent waits for %s: %s", point, d.Reason, d.Message)
	}
	if text, want := identities(t, dir), files["data/identity"]; text != want {
		t.Errorf("point %d: the data must be %q and is %q", point, want, text)
	}
	if data {
		return false
	}
	if err := agentIn(dir, "next", ticket, &started).Run(t.Context()); err != nil || started != ticket {
		t.Errorf("point %d: the next pod starts with %q (%v)", point, started, err)
	}
	return false
}

// identities returns the content of the files "identity" in the data folders of the volume, including renamed folders.
func identities(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "data*", "identity"))
	assert.NilError(t, err)
	var all strings.Builder
	for _, file := range found {
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		all.Write(text)
	}
	return all.String()
}

// The agent reports that it waits for a ticket, and starts the server when the ticket arrives.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var started string
	a := agentIn(dir, "uid", "", &started)
	var log bytes.Buffer
	a.Log = &log
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	assert.NilError(t, os.WriteFile(a.Ticket, []byte("seed"), 0o600))
	if err := <-done; err != nil || started != "seed" {
		t.Fatalf("the agent started with %q: %v", started, err)
	}
	mark, err := ReadMark(dir)
	if err != nil || mark.Ticket != "seed" || mark.PodUID != "uid" || mark.Pod != pod {
		t.Errorf("the mark is %+v (%v)", mark, err)
	}
	// After the server has created its data, the agent adds the IDs of the data to the mark. A force ticket ends the server once.
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "data"), 0o755), os.WriteFile(filepath.Join(dir, "data", "identity"), []byte("c/a"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if forced, err := a.watchOnce(&noter{follow: a.Server.Follow("")}); forced || err != nil {
		t.Errorf("%v %v", forced, err)
	}
	if mark, err = ReadMark(dir); err != nil || mark.Cluster != "c" || mark.Member != "a" {
		t.Errorf("the mark is %+v (%v)", mark, err)
	}
	assert.NilError(t, os.WriteFile(a.Ticket, []byte("force:1"), 0o600))
	if forced, err := a.watchOnce(&noter{follow: a.Server.Follow("")}); !forced || err != nil {
		t.Errorf("the agent ignores the force ticket (%v)", err)
	}
	if err := a.Run(t.Context()); err != nil || started != "force:1" {
		t.Errorf("the agent started with %q: %v", started, err)
	}
	if forced, err := a.watchOnce(&noter{follow: a.Server.Follow("")}); forced || err != nil {
		t.Errorf("the agent used the force ticket twice (%v)", err)
	}
}

// The agent starts nothing on a volume whose mark has an unknown format. A newer agent, for example, writes such a mark.
func TestMarkOfTheFuture(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range []string{`{"format":2,"pod":"data/etcd-1"}`, "{", "{}"} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, MarkFile), []byte(text), 0o600))
		var started string
		s, err := agentIn(dir, "uid", "seed", &started).look(t.Context())
		if d := Decide(s); err != nil || d.Reason != DataForeign {
			t.Errorf("%s: %+v (%v)", text, d, err)
		}
	}
}

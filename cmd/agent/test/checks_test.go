// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// breaker makes a check of the newest of three backups fail.
type breaker struct {
	name       string
	harm, heal func()
	during     func(*testing.T, *exec.Cmd)
	// limit is a bash command that runs before the agent. tools is the flavour of the image; "" for the flavour of the
	// backup. key is the private key; "" for the right one. store holds the flags of another store; nil for the right
	// one.
	limit, tools, key string
	store             []string
	// series is the version that the image's server reports; "" for the real version.
	series string
	// hides reports whether listings lack an object during a prune. clock is the difference between the prune's clock
	// and the true time.
	hides func(name string) bool
	clock time.Duration

	reason  contract.Reason // "*" for any reason that proves no damage
	verdict string          // "", good or damaged
}

// A check that fails for a reason outside of the backup proves no damage. Ten later runs of prune remove no good backup.
func TestChecksThatFail(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) { checksThatFail(t, flavour) })
	}
}

func checksThatFail(t *testing.T, flavour string) {
	t.Parallel()
	s, identity, to := start(t, flavour), key(t), folder(t)
	a := archive(s, to, identity, time.Second)
	defer func() { a.stop(); a.done.Wait() }()
	s.Exec("CREATE TABLE shop.wide (id INT PRIMARY KEY, body LONGTEXT)", "INSERT INTO shop.wide SELECT ORDINAL_POSITION, REPEAT('4111-1111-1111-1111', 25000) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'user'")
	var ids []string
	for range 3 {
		made, _, err := backup.Run(t.Context(), options(s, to, identity))
		assert.NilError(t, err)
		ids = append(ids, made.ID)
	}
	s.Exec("INSERT INTO shop.items VALUES (7, 7)")
	a.catchUp(t)
	a.stop()
	a.done.Wait()
	newest := manifest.Folder(ids[2])
	object := newest + "dump.sql.zst.age"
	names := segments(t, to)
	last := names[len(names)-1]
	for _, name := range names {
		if len(read(t, to, name)) > len(read(t, to, last)) && name > names[0] {
			last = name
		}
	}
	scratch := t.TempDir()
	other := map[string]string{server.MariaDB: server.MySQL, server.MySQL: server.MariaDB}[flavour]
	older := map[string]string{server.MariaDB: "mysqld  Ver 10.6.18-MariaDB", server.MySQL: "mysqld  Ver 8.4.3 for Linux on x86_64"}[flavour]
	var newer string // backup that is made during a check
	flipped := func(name string) func() { return func() { write(t, to, name, flip(read(t, to, name))) } }
	for _, c := range []breaker{
		{name: "nothing is wrong", verdict: "good"},
		{name: "the scratch volume is full", limit: "ulimit -f 4000;", reason: "*"},
		{name: "the server is killed", during: func(t *testing.T, cmd *exec.Cmd) { untilItServes(t, cmd); killDump(cmd.Process.Pid) }, reason: "*"},
		{name: "the server has no memory left", during: func(t *testing.T, cmd *exec.Cmd) { starve(t, untilItServes(t, cmd)) }, reason: "*"},
		{name: "the agent is killed", during: func(t *testing.T, cmd *exec.Cmd) { untilItServes(t, cmd); _ = cmd.Process.Kill() }, reason: "*"},
		{name: "a segment is missing", harm: func() { write(t, to, "kept", read(t, to, last)); remove(t, to, last) }, heal: func() { write(t, to, last, read(t, to, "kept")) }, reason: contract.ReasonDamaged, verdict: "good"},
		{name: "a segment is damaged", harm: flipped(last), heal: flipped(last), reason: contract.ReasonDamaged, verdict: "good"},
		{name: "the key is another one", key: key(t).String(), reason: contract.ReasonWrongKey},
		{name: "the image is of another kind", tools: other, reason: contract.ReasonRefused},
		{name: "the image is of an older series", series: older, reason: contract.ReasonRefused},
		{name: "the store does not answer", store: []string{"--s3-endpoint=http://127.0.0.1:1", "--s3-bucket=b"}, reason: contract.ReasonStoreUnreachable},
		{name: "lists lack the newest backup", hides: func(name string) bool { return strings.HasPrefix(name, newest) }, verdict: "good"},
		{name: "the clock was set back", clock: -365 * 24 * time.Hour, verdict: "good"},
		{name: "the clock was set ahead", clock: 365 * 24 * time.Hour, verdict: "good"},
		{name: "a newer backup is made", during: func(t *testing.T, cmd *exec.Cmd) {
			untilItServes(t, cmd)
			made, _, err := backup.Run(t.Context(), options(s, to, identity))
			assert.NilError(t, err)
			newer = made.ID
		}, verdict: "good"},
		{name: "an object of the backup is damaged", harm: flipped(object), heal: flipped(object), reason: contract.ReasonDamaged, verdict: "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			remove(t, to, newest+manifest.Verified)
			if c.harm != nil {
				c.harm()
				defer c.heal()
			}
			c.check(t, cmp.Or(c.tools, flavour), cmp.Or(c.key, identity.String()), scratch, to, ids[2])
			entry, err := catalogue.Find(t.Context(), to, ids[2])
			assert.NilError(t, err)
			got := ""
			if v := entry.Verified; v != nil && v.OK {
				got = "good"
			} else if v != nil && v.Damaged {
				got = "damaged"
			} else if v != nil {
				got = v.Message
			}
			assert.Equal(t, got, c.verdict)
			for range 10 {
				_, err := catalogue.Prune(t.Context(), late{to, c.hides}, catalogue.Rule{Keep: 2, KeepFor: time.Hour, AtLeast: 1}, time.Now().Add(c.clock))
				assert.NilError(t, err)
			}
			entries, err := catalogue.Backups(t.Context(), to)
			assert.NilError(t, err)
			left := map[string]bool{"": true}
			for _, entry := range entries {
				left[entry.ID] = true
			}
			if !left[newer] || !left[ids[2]] || !left[ids[1]] {
				t.Errorf("left are %v of %v %s", entries, ids, newer)
			}
		})
	}
}

// check runs a check of a backup, and compares its result.
func (c *breaker) check(t *testing.T, flavour, key, scratch string, to *store.Folder, id string) {
	t.Helper()
	place := c.store
	if place == nil {
		place = []string{strings.Replace(to.String(), "folder ", "--folder=", 1)}
	}
	env := []string{"AGENT_IDENTITIES=" + key}
	if c.series != "" {
		image := t.TempDir()
		tools := rig.Tools(t, flavour)
		text := fmt.Sprintf("#!/bin/bash\n[[ $* == *--version* ]] && exec echo '%s'\nexec %s/mysqld \"$@\"\n", c.series, tools)
		assert.NilError(t, os.WriteFile(filepath.Join(image, "mysqld"), []byte(text), 0o755))
		env = append(env, "PATH="+image+":"+tools+":/usr/bin:/bin")
	}
	cmd, out := agent(t, flavour, env, append([]string{"verify", "--backup=" + id, "--scratch=" + scratch, "--to-time=latest", "--report="}, place...)...)
	if c.limit != "" {
		cmd.Args = append([]string{"bash", "-c", c.limit + ` exec "$@"`, "bash"}, cmd.Args...)
		cmd.Path = "/bin/bash"
	}
	assert.NilError(t, cmd.Start())
	if c.during != nil {
		c.during(t, cmd)
	}
	_ = cmd.Wait() // the test reads the result below
	if strings.Contains(out.String(), "4111-1111") || strings.Contains(out.String(), key) {
		t.Errorf("the output has a row or a key: %s", out)
	}
	if cmd.ProcessState.ExitCode() < 0 {
		return
	}
	r := result(t, out)
	if c.reason != "*" && r.Reason != c.reason || c.reason == "*" && (r.OK || r.Reason == contract.ReasonDamaged || r.Reason == contract.ReasonMismatch) || r.Verified != (c.verdict == "good") {
		t.Errorf("%+v", r)
	}
}

// late is a store whose listings lack objects.
type late struct {
	store.Store
	hides func(name string) bool
}

func (l late) List(ctx context.Context, prefix string) ([]store.Info, error) {
	infos, err := l.Store.List(ctx, prefix)
	return slices.DeleteFunc(infos, func(i store.Info) bool { return l.hides != nil && l.hides(i.Name) }), err
}

// starve sets the memory limit of a process below its present use: every further allocation fails.
func starve(t *testing.T, pid int) {
	t.Helper()
	assert.NilError(t, unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}, nil))
}

// untilItServes waits until an agent has started the server that loads the backup. (The server that creates the first files has no socket.)
func untilItServes(t *testing.T, cmd *exec.Cmd) (server int) {
	t.Helper()
	rig.Until(t, "the server of the check", func() bool {
		return slices.ContainsFunc(children(cmd.Process.Pid), func(pid int) bool {
			command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			server = pid
			return err == nil && bytes.Contains(command, []byte("--socket="))
		})
	})
	return server
}

// A failed replay reports the failed event, but neither the statement's password nor a row of the event.
func TestReplayThatFailsTellsNoSecret(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		for statement, says := range map[string]string{
			"ALTER USER 'hidden'@'%' IDENTIFIED BY 'replay-secret'": "error 1396",
			"UPDATE shop.hidden SET body = 'another-secret'":        "error 1032",
		} {
			t.Run(flavour+" "+says, func(t *testing.T) {
				t.Parallel()
				s, identity, to := start(t, flavour), key(t), folder(t)
				s.Exec("CREATE TABLE shop.hidden (id INT PRIMARY KEY, body TEXT)")
				a := archive(s, to, identity, time.Second)
				defer func() { a.stop(); a.done.Wait() }()
				_, _, err := backup.Run(t.Context(), options(s, to, identity))
				assert.NilError(t, err)
				s.Exec("SET SQL_LOG_BIN = 0", "CREATE USER 'hidden'@'%'", "INSERT INTO shop.hidden VALUES (1, 'replay-secret')", "SET SQL_LOG_BIN = 1", statement)
				a.catchUp(t)
				cmd, out := agent(t, flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, "verify", "--scratch="+t.TempDir(), "--to-time=latest", "--report=", strings.Replace(to.String(), "folder ", "--folder=", 1))
				_ = cmd.Run() // the test reads the result below
				r := result(t, out)
				if r.Reason != contract.ReasonLoadFailed || !r.Verified || !strings.Contains(r.Message, says) || strings.Contains(out.String(), "secret") {
					t.Errorf("%s", out)
				}
				t.Log(r.Message)
			})
		}
	}
}

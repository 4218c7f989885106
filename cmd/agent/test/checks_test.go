// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
)

// A check that fails for another reason than the backup's own objects convicts nothing, and prune then removes no good backup.
func TestChecksThatFail(t *testing.T) {
	for _, flavour := range flavours() {
		t.Run(flavour, func(t *testing.T) { checksThatFail(t, flavour) })
	}
}

func checksThatFail(t *testing.T, flavour string) {
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
	none, scratch := func() {}, t.TempDir()
	for _, c := range []struct {
		name, limit string
		harm, heal  func()
		during      func(*testing.T, *exec.Cmd)
		key         string
		reason      contract.Reason
		verdict     string // "", good or damaged
	}{
		{"nothing is wrong", "", none, none, nil, identity.String(), "", "good"},
		{"the scratch volume is full", "ulimit -f 4000;", none, none, nil, identity.String(), "*", ""},
		{"the server is killed", "", none, none, func(t *testing.T, cmd *exec.Cmd) { untilItServes(t, cmd); killDump(cmd.Process.Pid) }, identity.String(), "*", ""},
		{"the agent is killed", "", none, none, func(t *testing.T, cmd *exec.Cmd) { untilItServes(t, cmd); _ = cmd.Process.Kill() }, identity.String(), "*", ""},
		{"a segment is missing", "", func() { write(t, to, "kept", read(t, to, last)); remove(t, to, last) }, func() { write(t, to, last, read(t, to, "kept")) }, nil, identity.String(), contract.ReasonDamaged, "good"},
		{"a segment is damaged", "", func() { write(t, to, last, flip(read(t, to, last))) }, func() { write(t, to, last, flip(read(t, to, last))) }, nil, identity.String(), contract.ReasonDamaged, "good"},
		{"the key is another one", "", none, none, nil, key(t).String(), contract.ReasonWrongKey, ""},
		{"an object of the backup is damaged", "", func() { write(t, to, object, flip(read(t, to, object))) }, func() { write(t, to, object, flip(read(t, to, object))) }, nil, identity.String(), contract.ReasonDamaged, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			remove(t, to, newest+manifest.Verified)
			c.harm()
			defer c.heal()
			cmd, out := agent(t, flavour, []string{"AGENT_IDENTITIES=" + c.key}, "verify", "--scratch="+scratch, "--to-time=latest", "--report=", strings.Replace(to.String(), "folder ", "--folder=", 1))
			if c.limit != "" {
				cmd.Args = []string{"bash", "-c", c.limit + ` exec "$@"`, "bash", cmd.Path, "verify"}
				cmd.Args = append(cmd.Args, "--scratch="+scratch, "--to-time=latest", "--report=", strings.Replace(to.String(), "folder ", "--folder=", 1))
				cmd.Path = "/bin/bash"
			}
			assert.NilError(t, cmd.Start())
			if c.during != nil {
				c.during(t, cmd)
			}
			_ = cmd.Wait() // its result is looked at
			if strings.Contains(out.String(), "4111-1111") || strings.Contains(out.String(), c.key) {
				t.Errorf("the output has a row or a key: %s", out)
			}
			if cmd.ProcessState.ExitCode() >= 0 {
				if r := result(t, out); c.reason != "*" && r.Reason != c.reason || c.reason == "*" && (r.OK || r.Reason == contract.ReasonDamaged || r.Reason == contract.ReasonMismatch) || r.Verified != (c.verdict == "good") {
					t.Errorf("%+v", r)
				}
			}
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
				_, err := catalogue.Prune(t.Context(), to, catalogue.Rule{Keep: 2, AtLeast: 1}, time.Now())
				assert.NilError(t, err)
			}
			entries, err := catalogue.Backups(t.Context(), to)
			assert.NilError(t, err)
			if len(entries) < 2 || entries[0].ID != ids[2] || entries[1].ID != ids[1] {
				t.Errorf("left are %v of %v", entries, ids)
			}
		})
	}
}

// untilItServes waits until an agent has started the server that it restores to. The one that makes the first files has no socket.
func untilItServes(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	until(t, "the server of the check", time.Minute, func() bool {
		return slices.ContainsFunc(children(cmd.Process.Pid), func(pid int) bool {
			command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			return err == nil && bytes.Contains(command, []byte("--socket="))
		})
	})
}

// What a replay fails with is named, and neither the statement's password nor a row of the event.
func TestReplayThatFailsTellsNoSecret(t *testing.T) {
	for _, flavour := range flavours() {
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
				_ = cmd.Run() // its result is looked at
				r := result(t, out)
				if r.Reason != contract.ReasonLoadFailed || !r.Verified || !strings.Contains(r.Message, says) || strings.Contains(out.String(), "secret") {
					t.Errorf("%s", out)
				}
				t.Log(r.Message)
			})
		}
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Each kind of failure has an exit code and a message with the next step. The agent ends within a minute, and changes
// nothing in the bucket.
func TestMessages(t *testing.T) {
	t.Parallel()
	s, b, identity := start(t, server.MariaDB), rig.NewBucket(t), key(t)
	made, _, err := backup.Run(t.Context(), options(s, b.Open(t), identity))
	assert.NilError(t, err)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, but sends nothing
	assert.NilError(t, err)
	defer silent.Close()
	other := key(t).String()
	own := "AGENT_IDENTITIES=" + identity.String()
	take := func(more ...string) []string { return backupFlags(s, append(bucketFlags(b), more...), identity) }
	give := func(more ...string) []string {
		return append(append([]string{"restore", "--volume=" + t.TempDir()}, bucketFlags(b)...), more...)
	}
	always := func(f rig.Fault) func(*http.Request) rig.Fault { return func(*http.Request) rig.Fault { return f } }
	table := []struct {
		name   string
		flags  []string
		env    string
		faults func(*http.Request) rig.Fault
		reason contract.Reason
		says   string
	}{
		{"wrong password", take(), "AGENT_PASSWORD=wrong", nil, contract.ReasonAccessDenied, "correct the password"},
		{"no server", take("--server=127.0.0.1:1"), "", nil, contract.ReasonServerUnreachable, "127.0.0.1:1"},
		{"server hangs", take("--server=" + silent.Addr().String()), "", nil, contract.ReasonServerUnreachable, silent.Addr().String()},
		{"no store", take("--s3-endpoint=http://127.0.0.1:1"), "", nil, contract.ReasonStoreUnreachable, "does not answer"},
		{"store hangs", take("--s3-endpoint=http://" + silent.Addr().String()), "", nil, contract.ReasonStoreUnreachable, "does not answer"},
		{"store breaks", take(), "", always(rig.Down), contract.ReasonStoreUnreachable, "does not answer"},
		{"no bucket", take("--s3-bucket=nothing"), "", nil, contract.ReasonStoreMissing, "create it"},
		{"no folder", backupFlags(s, []string{"--folder=/nowhere", "--report="}, identity), "", nil, contract.ReasonStoreMissing, "mounted"},
		{"full bucket", take(), "", always(rig.NoRoom), contract.ReasonStoreFull, "no room"},
		{"wrong credentials", take(), "", always(rig.Denied), contract.ReasonStoreDenied, "credentials"},
		{"wrong key", give(), "AGENT_IDENTITIES=" + other, nil, contract.ReasonWrongKey, "other keys"},
		{"no key", give(), "", nil, contract.ReasonWrongKey, "private key"},
		{"text that is no key", give(), "AGENT_IDENTITIES=secret-that-must-not-be-shown", nil, contract.ReasonUsage, "AGE-SECRET-KEY"},
		{"no such backup", give("--backup=20200101T000000Z-00000000"), own, nil, contract.ReasonNotFound, "agent list"},
		{"time before the backup", give("--to-time=2020-01-01T00:00:00Z"), own, nil, contract.ReasonNotFound, "before the first backup"},
		{"time before the given backup", give("--backup="+made.ID, "--to-time=2020-01-01T00:00:00Z"), own, nil, contract.ReasonNotFound, "older backup"},
		{"time without archive", give("--to-time=2099-01-01T00:00:00Z"), own, nil, contract.ReasonNotFound, "archive"},
		{"bad time", give("--to-time=yesterday"), own, nil, contract.ReasonUsage, "--to-time"},
		{"unknown flag", take("--nonsense"), "", nil, contract.ReasonUsage, "nonsense"},
		{"bad recipient", take("--recipient=nonsense"), "", nil, contract.ReasonUsage, "public keys"},
	}
	before := list(t, b)
	t.Run("nothing changes", func(t *testing.T) {
		for _, c := range table {
			t.Run(c.name, func(t *testing.T) {
				if strings.HasSuffix(c.name, "hangs") {
					rig.Long(t)
					t.Parallel() // slow: these cases run in parallel with each other, after all other cases; they do not use the bucket
				}
				b.Break(c.faults)
				defer b.Break(nil)
				cmd, out := agent(t, server.MariaDB, []string{c.env}, c.flags...)
				began := time.Now()
				_ = cmd.Run() // the exit code is checked below
				r := result(t, out)
				if r.Reason != c.reason || cmd.ProcessState.ExitCode() != contract.Exits[c.reason] || !strings.Contains(r.Message, c.says) {
					t.Errorf("exit code %d, result %+v; wanted %s with %q", cmd.ProcessState.ExitCode(), r, c.reason, c.says)
				}
				rig.Promptly(t, began, time.Minute, c.name)
				for _, secret := range []string{rig.Password, "secret-that", other, identity.String()} {
					if strings.Contains(out.String(), secret) {
						t.Errorf("the output has a secret: %s", out)
					}
				}
				b.Break(nil)
				if after := list(t, b); after != before {
					t.Errorf("the bucket has changed:\n%s\n%s", before, after)
				}
			})
		}
	})
	t.Run("newer format", func(t *testing.T) {
		text, err := manifest.Encode(map[string]any{"format": 99, "id": "x"})
		assert.NilError(t, err)
		assert.NilError(t, b.Open(t).Create(t.Context(), manifest.Folder("20990101T000000Z-00000000")+manifest.Name, text))
		cmd, out := agent(t, server.MariaDB, []string{own}, give()...)
		_ = cmd.Run()
		if r := result(t, out); r.Reason != contract.ReasonNewerFormat || !strings.Contains(r.Message, "newer") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("volume in use", func(t *testing.T) {
		volume := t.TempDir()
		file := filepath.Join(volume, "mysql", "ibdata1")
		assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		assert.NilError(t, os.WriteFile(file, []byte("precious"), 0o600))
		cmd, out := agent(t, server.MariaDB, []string{own}, give("--backup="+made.ID, "--volume="+volume)...)
		_ = cmd.Run()
		if r := result(t, out); r.Reason != contract.ReasonNotEmpty {
			t.Errorf("%+v", r)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
			t.Error("the file was deleted")
		}
	})
	t.Run("damaged", func(t *testing.T) {
		b.Damage(t, "platform/mysql/"+manifest.Folder(made.ID)+made.Objects[0].Name)
		volume := t.TempDir()
		cmd, out := agent(t, server.MariaDB, []string{own}, give("--backup="+made.ID, "--volume="+volume)...)
		_ = cmd.Run()
		if r := result(t, out); r.Reason != contract.ReasonDamaged {
			t.Errorf("%+v", r)
		}
		guard, _ := agent(t, server.MariaDB, nil, "guard", "--volume="+volume, "--report="+filepath.Join(t.TempDir(), "report"))
		if err := guard.Run(); err == nil || guard.ProcessState.ExitCode() != 3 {
			t.Errorf("the guard allows a server to start on an incomplete database: %v", err)
		}
	})
}

// During a long query, a backup does not block the server. MySQL's dump needs a lock of all tables, which would wait for the query, so the
// backup fails. MariaDB's dump needs no lock.
func TestLongQuery(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, identity := start(t, flavour), key(t)
			conn, err := server.Connect(t.Context(), s.Root())
			assert.NilError(t, err)
			defer conn.Close()
			id, err := conn.Value("SELECT CONNECTION_ID()")
			assert.NilError(t, err)
			s.Exec("INSERT INTO shop.items VALUES (1, 1)")
			ended := make(chan error, 1)
			go func() { ended <- conn.Do("SELECT SLEEP(100) FROM shop.items") }()
			rig.Until(t, "the query", func() bool {
				n, err := value(t, s, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%' AND TIME >= 2")
				return err == nil && n == "1"
			})
			flags := append(backupFlags(s, []string{"--report="}, identity), strings.Replace(folder(t).String(), "folder ", "--folder=", 1), "--max-lock-wait=1s")
			cmd, out := agent(t, flavour, nil, flags...)
			_ = cmd.Run() // the test reads the result below
			r := result(t, out)
			if flavour == server.MariaDB && !r.OK || flavour == server.MySQL && (r.Reason != contract.ReasonLockWait || !strings.Contains(r.Message, "connection "+id)) {
				t.Errorf("%+v", r)
			}
			s.Exec("INSERT INTO shop.items VALUES (2, 1)") // other statements do not wait
			s.Exec("KILL QUERY " + id)
			if err := <-ended; err != nil {
				t.Log(err)
			}
		})
	}
}

// The server hangs during a dump: the backup fails with a reason within a minute.
func TestAServerThatHangs(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, identity := start(t, flavour), key(t)
			conn, err := server.Connect(t.Context(), s.Root())
			assert.NilError(t, err)
			defer conn.Close()
			if err := conn.Do("LOCK TABLES shop.items WRITE"); err != nil { // makes the dump wait
				t.Fatal(err)
			}
			to := folder(t)
			cmd, out := agent(t, flavour, nil, append(backupFlags(s, []string{"--report="}, identity), strings.Replace(to.String(), "folder ", "--folder=", 1), "--max-lock-wait=5m")...)
			assert.NilError(t, cmd.Start())
			rig.Until(t, "the dump", func() bool {
				n, err := value(t, s, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for %' AND USER = '"+rig.Account+"'")
				return err == nil && n == "1"
			})
			thaw := s.Freeze()
			defer thaw()
			began := time.Now()
			_ = cmd.Wait() // the test reads the result below
			if r := result(t, out); r.Reason != contract.ReasonServerUnreachable || time.Since(began) > time.Minute {
				t.Errorf("after %s: %+v", time.Since(began), r)
			} else {
				t.Log(r.Message)
			}
			if infos, err := to.List(t.Context(), ""); err != nil || len(infos) > 0 {
				t.Errorf("%v is left: %v", infos, err)
			}
		})
	}
}

func value(t testing.TB, s *rig.Server, query string) (string, error) {
	t.Helper()
	conn, err := server.Connect(t.Context(), s.Root())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.Value(query)
}

func list(t testing.TB, b *rig.Bucket) string {
	t.Helper()
	infos, err := b.Open(t).List(t.Context(), "")
	assert.NilError(t, err)
	text, err := json.Marshal(infos)
	assert.NilError(t, err)
	return string(text)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// importing is an import of a server by an agent. It restarts the agent whenever the agent ends, as a pod does.
type importing struct {
	*rig.Server
	volume, cut string
	more        []string
	// image is the flavour of the new server.
	image string
	cmd   *exec.Cmd
	done  chan struct{}

	mu     sync.Mutex
	states []contract.Import
	last   string
	words  *server.Tail
}

func newImport(t testing.TB, s *rig.Server, more ...string) *importing {
	t.Helper()
	folder := t.TempDir()
	return &importing{Server: s, volume: t.TempDir(), cut: filepath.Join(folder, "cut"), more: more, image: s.Flavour}
}

// start starts the agent.
func (i *importing) start() {
	i.T.Helper()
	arguments := append([]string{"import", "--server=" + i.Options().Address, "--user=" + rig.Account, "--volume=" + i.volume, "--cut-over=" + i.cut, "--report=", "--server-config=" + i.Config(), "--birth", "--interval=500ms"}, i.more...)
	i.cmd, _ = agent(i.T, i.image, nil, arguments...)
	i.cmd.Stdout, i.words = nil, &server.Tail{}
	i.cmd.Stderr = i.words
	out, err := i.cmd.StdoutPipe()
	assert.NilError(i.T, err)
	assert.NilError(i.T, i.cmd.Start())
	cmd, done := i.cmd, make(chan struct{})
	i.mu.Lock()
	i.done, i.states, i.last = done, nil, ""
	i.mu.Unlock()
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var s contract.Import
			i.mu.Lock()
			i.last = lines.Text()
			if json.Unmarshal(lines.Bytes(), &s) == nil && s.Phase != "" {
				i.states = append(i.states, s)
			}
			i.mu.Unlock()
		}
		_ = cmd.Wait() // ProcessState has the exit code
	}()
	i.T.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
}

// kill ends the agent and its servers immediately.
func (i *importing) kill() {
	_ = i.cmd.Process.Kill()
	<-i.done
}

// state returns the last printed state, or an empty one before the first.
func (i *importing) state() contract.Import {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.states) == 0 {
		return contract.Import{}
	}
	return i.states[len(i.states)-1]
}

func (i *importing) hasEnded() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// reaches waits for a phase.
func (i *importing) reaches(phase contract.ImportPhase) {
	i.T.Helper()
	defer func() {
		if i.T.Failed() {
			i.T.Logf("the import: %s", i.last)
		}
	}()
	rig.Until(i.T, "phase "+string(phase), func() bool {
		if i.hasEnded() {
			i.T.Fatalf("the import ended: %s %s", i.last, i.words)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, s := range i.states {
			if s.Phase == phase {
				return true
			}
		}
		return false
	})
}

// result waits for the end of the import.
func (i *importing) result() contract.Result {
	i.T.Helper()
	select {
	case <-i.done:
	case <-time.After(rig.Patience):
		i.T.Fatalf("the import does not end: %+v", i.state())
	}
	var r contract.Result
	assert.NilError(i.T, json.Unmarshal([]byte(i.last), &r), "%s", i.words)
	return r
}

func (i *importing) cutOver(yes bool) {
	text := map[bool]string{true: "cut-over"}[yes]
	assert.NilError(i.T, os.WriteFile(i.cut, []byte(text), 0o644))
}

// database starts a server on the copied data.
func (i *importing) database() *rig.Server { return i.On(filepath.Join(i.volume, "mysql")) }

// ownState returns the accounts, tables and variables of a server. An import must not change them.
func ownState(s *rig.Server) string {
	text := s.Ask("SELECT User, Host FROM mysql.user ORDER BY 1, 2") + s.Ask("SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, CREATE_OPTIONS FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN ('information_schema','performance_schema') ORDER BY 1, 2")
	for line := range strings.Lines(s.Ask("SHOW GLOBAL VARIABLES")) {
		if !strings.HasPrefix(line, "gtid_") && !strings.HasPrefix(line, "timestamp") {
			text += line
		}
	}
	return text
}

// gtids returns the options with which MySQL records GTIDs.
func gtids(flavour string) []string {
	if flavour == server.MySQL {
		return []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"}
	}
	return nil
}

// An agent copies a server under load. It is killed at each step and continues. At the cut-over, the copy equals the source, and the source
// is unchanged.
func TestImport(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			random := chance.New(t, 5)
			keys := t.TempDir()
			rig.NewAuthority(t).Write(t, keys, "127.0.0.1")
			s := start(t, flavour, append(gtids(flavour), "--ssl-ca="+keys+"/ca.crt", "--ssl-cert="+keys+"/tls.crt", "--ssl-key="+keys+"/tls.key")...)
			s.Exec("SET SQL_LOG_BIN = 0", "ALTER USER "+rig.Account+"@'%' REQUIRE SSL")
			before := ownState(s)
			load := s.Write(6, 2, 20*time.Millisecond)
			defer load.Stop()
			rig.Until(t, "50 transactions", func() bool { return len(load.Acks()) >= 50 })
			i := newImport(t, s, "--server-ca="+keys+"/ca.crt")
			for _, phase := range []contract.ImportPhase{contract.ImportConnecting, contract.ImportDumping, contract.ImportLoading} {
				i.start()
				if phase != contract.ImportConnecting {
					i.reaches(phase)
				}
				time.Sleep(time.Duration(random.Intn(300)) * time.Millisecond) // random: the test must pass for every duration
				i.kill()
			}
			for n := range rig.Seeds(6, 60) {
				i.start()
				i.reaches(contract.ImportFollowing)
				time.Sleep(time.Duration(random.Intn(3000)) * time.Millisecond) // random: the test must pass for every duration
				i.kill()
				if state := i.state(); state.Again != "" {
					t.Errorf("kill %d: the agent began another copy: %s", n, state.Again)
				}
				if n%3 == 2 {
					s.Exec("FLUSH BINARY LOGS")
				}
			}
			i.start()
			i.reaches(contract.ImportFollowing)
			load.Slow(200 * time.Millisecond) // a busy machine may write faster than it replays
			i.follows()
			i.cutOver(true)
			rig.Until(t, "a refusal while the source is written to", func() bool { return strings.Contains(i.state().Message, "still written to") })
			acks := load.Stop()
			stopped := time.Now()
			r := i.result()
			assert.Assert(t, r.OK, "%+v %s", r, i.words)
			assert.Equal(t, i.state().Again, "")
			copied := i.database()
			t.Logf("%d transactions, of which %d were replayed; %s from the last write to a server that answers", len(acks), r.Transactions, time.Since(stopped).Round(time.Millisecond))
			got, err := rig.Read(t.Context(), copied.Root())
			assert.NilError(t, err)
			want, err := rig.Read(t.Context(), s.Root())
			assert.NilError(t, err)
			assert.Equal(t, rig.Differ(got, want), "")
			assert.Equal(t, lostOf(got, acks, stopped), 0)
			assert.Equal(t, ownState(s), before)
			left, err := os.ReadDir(i.volume)
			assert.NilError(t, err)
			for _, file := range left {
				assert.Assert(t, file.Name() == "mysql" || file.Name() == "d3os-data.json" || file.Name() == "mysql.pid", "%s is left over", file.Name())
			}
			i.start() // on a volume with a database, the agent does nothing
			assert.Assert(t, i.result().OK)
		})
	}
}

// equal cuts over and returns the new server. It makes the test fail unless the copy contains the rows of the source.
func (i *importing) equal() *rig.Server {
	i.T.Helper()
	i.cutOver(true)
	r := i.result()
	assert.Assert(i.T, r.OK, "%+v %s", r, i.words)
	copied := i.database()
	got, err := rig.Read(i.T.Context(), copied.Root())
	assert.NilError(i.T, err)
	want, err := rig.Read(i.T.Context(), i.Root())
	assert.NilError(i.T, err)
	assert.Equal(i.T, rig.Differ(got, want), "")
	return copied
}

// follows waits until the copy has everything that the source has at the time of the call.
func (i *importing) follows() {
	i.T.Helper()
	end := i.LogEnd()
	defer func() {
		if i.T.Failed() {
			i.T.Logf("the source is at %+v, the copy: %s", end, i.last)
		}
	}()
	rig.Until(i.T, "the copy to follow", func() bool {
		if i.hasEnded() {
			i.T.Fatalf("the import ended: %s %s", i.last, i.words)
		}
		s := i.state()
		return s.Phase == contract.ImportFollowing && s.Position != nil && s.Position.File == end.File && s.Position.Offset+200 >= end.Offset
	})
}

// An import copies everything that a server can contain, and applies later changes to all of it.
func TestImportZoo(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			assert.NilError(t, os.Mkdir(elsewhere, 0o755))
			more := []string{"TZ=CST-8", "--event-scheduler=OFF", "--default-storage-engine=InnoDB"}
			if flavour == server.MySQL {
				more = append(more, "--innodb-directories="+elsewhere, "--max-execution-time=1000")
			}
			s := rig.Start(t, flavour, more...)
			s.Exec(zone...)
			s.Exec(zoo(flavour, elsewhere, strings.Fields(s.Ask("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")))...)
			s.Exec("DROP TABLE zoo.placed") // the copy's server would use the same file
			random := chance.New(t, 8)
			i := newImport(t, s)
			i.start()
			i.reaches(contract.ImportFollowing)
			for step := range 39 {
				s.Exec(changeZoo(step, random)...)
				if step%13 == 12 {
					i.follows()
				}
			}
			s.Exec("XA START 'open'", "INSERT INTO zoo.nokey VALUES (2, 'xa', 0.1)", "XA END 'open'", "XA PREPARE 'open'")
			i.follows()
			i.cutOver(true)
			rig.Until(t, "the prepared transaction to be reported", func() bool { return strings.Contains(i.state().Message, "XA") })
			s.Exec("XA COMMIT 'open'")
			r := i.result()
			assert.Assert(t, r.OK, "%+v %s", r, i.words)
			all := readZoo(t, s)
			maps.DeleteFunc(all, func(object string, _ []string) bool { // the copy has neither account
				return strings.Contains(object, rig.Account) || strings.Contains(object, rig.ArchiveAccount)
			})
			differ(t, readZoo(t, i.database()), all, r.Warnings...)
		})
	}
}

// The source has a fault during the import. In the end the copy equals the source, or it does not become the database.
func TestImportOfATroubledSource(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := start(t, flavour)
			i := newImport(t, s, "--database=shop")
			s.Exec("CREATE DATABASE other", "CREATE TABLE other.t (id INT PRIMARY KEY)", "CREATE USER app@'%' IDENTIFIED BY 'Pw-12345'", "GRANT SELECT ON shop.* TO app@'%'")
			i.start()
			i.reaches(contract.ImportFollowing)
			t.Log("the source is killed, and other databases and accounts change")
			s.Kill()
			rig.Until(t, "the loss of the source to be reported", func() bool { return i.state().Reason == contract.ReasonServerUnreachable })
			s.Up()
			s.Exec("INSERT INTO other.t VALUES (1)", "CREATE TABLE other.u LIKE other.t", "CREATE DATABASE third", "DROP DATABASE third", "USE other", "CREATE TABLE shop.made (id INT PRIMARY KEY)",
				"INSERT INTO shop.made VALUES (1)", "USE shop", "INSERT INTO other.u VALUES (2)", "DROP TABLE other.u", "GRANT INSERT ON shop.* TO app@'%'")
			i.follows()
			assert.Equal(t, i.state().Again, "")
			t.Log("files of the log are removed that were not copied")
			i.kill()
			s.Exec("INSERT INTO shop.items VALUES (1, 1)", "FLUSH BINARY LOGS", "INSERT INTO shop.items VALUES (2, 1)", "FLUSH BINARY LOGS")
			rig.Until(t, "the files are removed", func() bool {
				s.Exec("PURGE BINARY LOGS TO '" + s.LogEnd().File + "'")
				return !strings.Contains(s.Ask("SHOW BINARY LOGS"), "000001")
			})
			i.start()
			rig.Until(t, "another copy", func() bool {
				s := i.state()
				return strings.Contains(s.Again, "removed") && s.Phase == contract.ImportFollowing
			})
			i.follows()
			t.Log("the source is put back to an earlier state")
			s.Exec("SET SQL_LOG_BIN = 0", "INSERT INTO shop.items VALUES (3, 1)")
			i.cutOver(true)
			rig.Until(t, "a refusal", func() bool { return i.state().Phase == contract.ImportRefused })
			assert.Assert(t, strings.Contains(i.state().Message, "`shop`.`items` (3 rows"), "%+v", i.state())
			i.kill()
			i.start()
			rig.Until(t, "the same refusal", func() bool { return i.state().Phase == contract.ImportRefused })
			i.cutOver(false)
			rig.Until(t, "another copy", func() bool { s := i.state(); return s.Again != "" && s.Phase == contract.ImportFollowing })
			s.Exec("DROP DATABASE other", "DROP DATABASE `od``d name`") // removed for the comparison: the import does not copy them
			copied := i.equal()
			assert.Equal(t, copied.Ask("SHOW GRANTS FOR app@'%'"), s.Ask("SHOW GRANTS FOR app@'%'"))
		})
	}
}

// Without a log, the copy has only the data of the dump. The copy becomes the database if it equals the source at the cut-over.
func TestImportWithoutALog(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := start(t, flavour, "--skip-log-bin")
			i := newImport(t, s)
			i.start()
			i.reaches(contract.ImportWaiting)
			assert.Assert(t, strings.Contains(i.state().Message, "no binary log in row format"), "%+v", i.state())
			s.Exec("INSERT INTO shop.items VALUES (3, 1)", "ALTER TABLE shop.empty COMMENT 'later'", "CREATE USER later@'%' IDENTIFIED BY 'Pw-12345'")
			i.cutOver(true)
			rig.Until(t, "a refusal", func() bool { return i.state().Phase == contract.ImportRefused })
			for _, what := range []string{"`shop`.`items` (", "accounts and their rights changed", "table `shop`.`empty` changed"} {
				assert.Assert(t, strings.Contains(i.state().Message, what), "%+v", i.state())
			}
			i.cutOver(false)
			rig.Until(t, "another copy", func() bool { s := i.state(); return s.Again != "" && s.Phase == contract.ImportWaiting })
			i.more = []string{"--database=shop"} // so that the import makes another copy
			i.kill()
			i.cutOver(false)
			i.start()
			rig.Until(t, "another copy", func() bool {
				s := i.state()
				return strings.Contains(s.Again, "or of other databases") && s.Phase == contract.ImportWaiting
			})
			s.Exec("DROP DATABASE `od``d name`") // removed for the comparison: the import does not copy it
			s.Exec("XA START 'open'", "INSERT INTO shop.items VALUES (4, 1)", "XA END 'open'", "XA PREPARE 'open'")
			i.cutOver(true)
			rig.Until(t, "the prepared transaction to be reported", func() bool { return strings.Contains(i.state().Message, "XA") })
			s.Exec("XA ROLLBACK 'open'")
			i.equal()
		})
	}
}

// A source without a volume restarts empty, so the copy is the only remaining data. The import neither discards the copy nor follows the
// empty source. With the user's consent to the named loss, the copy becomes the database, even while the source does not answer.
func TestImportOfALostSource(t *testing.T) {
	rig.Long(t)
	for flavour, options := range map[string][]string{server.MySQL: nil, server.MariaDB: {"--skip-log-bin"}} {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := start(t, flavour, options...)
			i := newImport(t, s)
			i.start()
			phase, hasLog := contract.ImportWaiting, options == nil
			if hasLog {
				phase = contract.ImportFollowing
			}
			i.reaches(phase)
			if hasLog {
				s.Exec("INSERT INTO shop.items VALUES (3, 1)")
				i.follows()
			}
			want, err := rig.Read(t.Context(), s.Root())
			assert.NilError(t, err)
			s.Lose()
			isRefused := func() bool {
				return i.state().Phase == contract.ImportRefused && strings.Contains(i.state().Message, "the source was replaced")
			}
			i.cutOver(!hasLog)
			rig.Until(t, "a refusal", isRefused)
			i.kill()
			i.cutOver(false) // with the same source, this would begin another copy
			i.start()
			rig.Until(t, "the same refusal", isRefused)
			_, consent, _ := strings.Cut(i.state().Message, `mysql.acceptLoss to "`)
			assert.NilError(t, os.WriteFile(i.cut, []byte("cut-over source other"), 0o644))
			rig.Until(t, "the cut-over is read", func() bool { return i.state().CutOver })
			assert.Assert(t, isRefused() && i.state().Again == "", "%+v", i.state())
			if hasLog {
				s.Kill()
				rig.Until(t, "nothing answers", func() bool { return strings.Contains(i.state().Message, "If its data is lost") })
			}
			assert.NilError(t, os.WriteFile(i.cut, []byte("cut-over "+strings.TrimSuffix(consent, `"`)), 0o644))
			r := i.result()
			assert.Assert(t, r.OK, "%+v %s", r, i.words)
			got, err := rig.Read(t.Context(), i.database().Root())
			assert.NilError(t, err)
			assert.Equal(t, rig.Differ(got, want), "")
		})
	}
}

// The time between the last write to the source and the first write to the copy is less than ten seconds: with 100 MiB, and with 1 GiB
// (IMPORT_TESTS=full).
func TestImportWindow(t *testing.T) {
	rig.Long(t)
	size := 100
	if os.Getenv("IMPORT_TESTS") == "full" {
		size = 1024
	}
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			s := rig.Start(t, flavour, "--innodb-buffer-pool-size=256M", "--loose-innodb-redo-log-capacity=1G", "--innodb-flush-log-at-trx-commit=0")
			s.Tables()
			fill(s, size)
			load := s.Write(9, 2, 20*time.Millisecond) // so that the copy also catches up on a busy machine
			defer load.Stop()
			i := newImport(t, s)
			begin := time.Now()
			i.start()
			rig.UntilWithin(t, 10*time.Minute, "the copy", func() bool {
				s := i.state()
				return s.Phase == contract.ImportFollowing && s.Transactions > 0 && s.Behind != nil && *s.Behind <= 3
			})
			took := time.Since(begin)
			load.Stop()
			stopped := time.Now()
			i.cutOver(true)
			r := i.result()
			assert.Assert(t, r.OK, "%+v %s", r, i.words)
			ended := time.Since(stopped)
			i.database().Exec("INSERT INTO shop.items VALUES (-1, 1)")
			window := time.Since(stopped)
			t.Logf("%d MiB, %d rows: copied in %s; without writes for %s, of which the agent took %s", size, r.Rows, took.Round(time.Millisecond), window.Round(time.Millisecond), ended.Round(time.Millisecond))
			if window > 10*time.Second {
				t.Errorf("no write was possible for %s", window)
			}
		})
	}
}

// A source that cannot be copied is refused with the reason before the agent writes anything.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	s := start(t, server.MariaDB)
	s.Exec("SET SQL_LOG_BIN = 0", "CREATE USER weak@'%' IDENTIFIED BY '"+strings.NewReplacer(`\\`, `\\\\`, "'", "''").Replace(rig.Password)+"'", "GRANT SELECT ON *.* TO weak@'%'")
	for want, change := range map[contract.Reason]func(*importing){
		contract.ReasonRefused:      func(i *importing) { i.more = []string{"--database=none"} },
		contract.ReasonAccessDenied: func(i *importing) { i.more = []string{"--user=weak"} },
		contract.ReasonUsage:        func(i *importing) { i.more = []string{"--server-ca=/none"} },
	} {
		i := newImport(t, s)
		change(i)
		i.start()
		r := i.result()
		assert.Equal(t, r.Reason, want, "%+v", r)
		assert.Assert(t, r.Message != "" && !strings.Contains(r.Message, rig.Password))
		_, err := os.Stat(filepath.Join(i.volume, "d3os-data.json"))
		assert.Assert(t, os.IsNotExist(err), "%s: the volume was marked", want)
	}
	t.Run("an image of another kind", func(t *testing.T) {
		source := *s
		source.T = t
		i := newImport(t, &source)
		i.image = server.MySQL
		i.start()
		r := i.result()
		assert.Assert(t, r.Reason == contract.ReasonRefused && strings.Contains(r.Message, "use an image of the same kind"), "%+v", r)
	})
	// A volume with data is not changed: without --birth the import is refused.
	i := newImport(t, s)
	assert.NilError(t, os.MkdirAll(filepath.Join(i.volume, "mysql", "mysql"), 0o755))
	i.start()
	assert.Assert(t, i.result().OK)
	i.more = []string{"--birth=false"}
	i.start()
	r := i.result()
	assert.Equal(t, r.Reason, contract.ReasonNotEmpty, "%+v", r)
}

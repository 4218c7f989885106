// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "rig-agent-")
	if err != nil {
		return "", err
	}
	rig.AtEnd(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "agent")
	if text, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, nil
})

// agent prepares a run of the real program.
func agent(t testing.TB, flavour string, env []string, arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	path, err := program()
	assert.NilError(t, err)
	cmd := exec.Command(path, arguments...)
	cmd.Env = append([]string{"PATH=" + rig.Tools(t, flavour) + ":/usr/bin:/bin", "HOME=/", "TMPDIR=" + os.TempDir(), "AGENT_PASSWORD=" + rig.Password,
		"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"}, env...)
	out := &bytes.Buffer{}
	cmd.Stdout = out
	return cmd, out
}

// result reads the last line of a run.
func result(t testing.TB, out *bytes.Buffer) contract.Result {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var r contract.Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("the last line is no result: %v: %q", err, lines[len(lines)-1])
	}
	return r
}

func bucketFlags(b *rig.Bucket) []string {
	return []string{"--s3-endpoint=" + b.URL, "--s3-bucket=backups", "--s3-prefix=platform/mysql", "--s3-path-style", "--s3-part-mib=5", "--report="}
}

func backupFlags(s *rig.Server, to []string, identity *age.X25519Identity) []string {
	return append(append([]string{"backup", "--server=" + s.Options().Address, "--user=" + rig.Account}, to...), "--recipient="+identity.Recipient().String())
}

// killDump kills the dump program of an agent.
func killDump(agent int) {
	for _, pid := range children(agent) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children returns the running processes that an agent has started.
func children(agent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(agent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Each seed breaks a backup in one way. If a manifest exists, the restored rows equal the rows that were committed at its position. If none
// exists, no backup is listed, and the next run removes all leftovers.
func TestBrokenBackups(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) { broken(t, flavour) })
	}
}

func broken(t *testing.T, flavour string) {
	t.Parallel()
	s, b, identity := start(t, flavour), rig.NewBucket(t), key(t)
	// These values do not compress, so an upload has several parts.
	s.Exec("SET SQL_LOG_BIN = 0", "CREATE TABLE shop.blobs (id BIGINT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB")
	random := chance.New(t, 4)
	for i := range 12 {
		body := make([]byte, 1<<20)
		_, _ = random.Read(body)
		s.Exec("SET SQL_LOG_BIN = 0", fmt.Sprintf("INSERT INTO shop.blobs VALUES (%d, 0x%x)", i, body))
	}
	load := s.Write(5, 2, 10*time.Millisecond)
	defer load.Stop()
	rig.Until(t, "20 transactions", func() bool { return len(load.Acks()) >= 20 })
	began := time.Now()
	if r := run(t, s, b, identity, nil); !r.OK {
		t.Fatalf("a backup without faults failed: %+v", r)
	}
	usual := time.Since(began)
	counts, listed := map[string]int{}, 1
	seeds := rig.Seeds(4, 200)
	for seed := range seeds {
		random := chance.New(t, int64(seed))
		name, fault := pick(random, s, b, usual, seed)
		before := ids(t, b)
		r := run(t, s, b, identity, fault)
		b.Break(nil)
		rig.Until(t, "the server", func() bool { _, err := value(t, s, "SELECT 1"); return err == nil })
		made := 0
		for id := range ids(t, b) {
			if !before[id] {
				made++
				exact(t, s, b, id, identity)
			}
		}
		if r.OK && made != 1 {
			t.Fatalf("seed %d: %s: the backup succeeded, and %d are listed", seed, name, made)
		}
		counts[fmt.Sprintf("%s: %t/%d", name, r.OK, made)]++
		listed += made
		t.Logf("seed %d: %s: %s, %d listed", seed, name, cmp.Or(string(r.Reason), r.Message, "succeeded"), made)
		next := run(t, s, b, identity, nil)
		if !next.OK {
			t.Fatalf("seed %d: the run after %s failed: %s", seed, name, next.Message)
		}
		listed++
		clean(t, b)
		if seed == seeds-1 {
			exact(t, s, b, next.ID, identity)
		}
		// Keep only the newest backups, so that the bucket does not grow.
		if _, err := catalogue.Prune(t.Context(), b.Open(t), catalogue.Rule{Keep: 1, AtLeast: 1}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d seeds, a backup takes %s, %d backups were listed; fault: succeeded/listed = times: %v", seeds, usual.Round(time.Millisecond), listed, counts)
}

// pick returns a random fault, which acts after the agent's start.
func pick(random *rand.Rand, s *rig.Server, b *rig.Bucket, usual time.Duration, seed int) (string, func(*exec.Cmd)) {
	after := time.Duration(random.Float64() * float64(usual) * 1.1)
	later := func(do func(*exec.Cmd)) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { time.Sleep(after); do(cmd) } // random: the test must pass for every duration
	}
	faults := func(f func(*http.Request) rig.Fault) func(*exec.Cmd) { return func(*exec.Cmd) { b.Break(f) } }
	switch seed % 8 {
	case 0:
		return "agent killed", later(func(cmd *exec.Cmd) { _ = cmd.Process.Kill() })
	case 1:
		return "dump killed", later(func(cmd *exec.Cmd) { killDump(cmd.Process.Pid) })
	case 2:
		return "server killed", later(func(*exec.Cmd) { s.Kill(); s.Up() })
	case 3:
		return "store gone", later(faults(rig.Sometimes(random, 1, rig.Down)))
	case 4:
		return "uploads cut", faults(rig.Sometimes(random, 0.3, rig.Cut, rig.Busy))
	case 5:
		return "answers lost", faults(rig.Sometimes(random, 0.3, rig.LostAnswer))
	case 6:
		return "store full", later(faults(rig.Sometimes(random, 1, rig.NoRoom)))
	}
	return "all at once", func(cmd *exec.Cmd) {
		b.Break(rig.Sometimes(random, 0.1, rig.LostAnswer, rig.Cut, rig.Busy))
		time.Sleep(after) // random: the test must pass for every duration
		_ = cmd.Process.Kill()
	}
}

// run runs a backup under a fault.
func run(t testing.TB, s *rig.Server, b *rig.Bucket, identity *age.X25519Identity, fault func(*exec.Cmd)) contract.Result {
	t.Helper()
	cmd, out := agent(t, s.Flavour, nil, backupFlags(s, bucketFlags(b), identity)...)
	assert.NilError(t, cmd.Start())
	if fault != nil {
		fault(cmd)
	}
	err := cmd.Wait()
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		return contract.Result{Message: "killed"}
	}
	r := result(t, out)
	if code := cmd.ProcessState.ExitCode(); r.OK != (code == 0) || code != contract.Exits[r.Reason] {
		t.Fatalf("exit code %d contradicts the result %+v", code, r)
	}
	return r
}

func ids(t testing.TB, b *rig.Bucket) map[string]bool {
	t.Helper()
	entries, err := catalogue.Backups(t.Context(), b.Open(t))
	assert.NilError(t, err)
	found := map[string]bool{}
	for _, e := range entries {
		if e.Err != nil {
			t.Fatalf("backup %s is listed, but: %v", e.ID, e.Err)
		}
		found[e.ID] = true
	}
	return found
}

// exact makes the test fail unless a backup contains exactly the rows at its position.
func exact(t *testing.T, s *rig.Server, b *rig.Bucket, id string, identity age.Identity) {
	t.Helper()
	got, out, err := attempt(t.Context(), t, s.Flavour, b.Open(t), id, nil, identity)
	assert.NilError(t, err)
	now, err := rig.Read(t.Context(), s.Root())
	assert.NilError(t, err)
	if diff := rig.Differ(rig.Rows{"blobs": got["shop.blobs"]}, rig.Rows{"blobs": now["shop.blobs"]}); diff != "" {
		t.Fatalf("the blobs of backup %s differ", id)
	}
	delete(got, "shop.blobs")
	same(t, got, s, out)
}

// clean makes the test fail if the bucket contains an object that no manifest names.
func clean(t testing.TB, b *rig.Bucket) {
	t.Helper()
	to := b.Open(t)
	known := map[string]bool{}
	entries, err := catalogue.Backups(t.Context(), to)
	assert.NilError(t, err)
	for _, e := range entries {
		for _, o := range e.Manifest.Objects {
			known[manifest.Folder(e.ID)+o.Name] = true
		}
		known[manifest.Folder(e.ID)+manifest.Name] = true
	}
	infos, err := to.List(t.Context(), "")
	assert.NilError(t, err)
	for _, info := range infos {
		if !known[info.Name] {
			t.Fatalf("%s is left over", info.Name)
		}
	}
	unfinished, err := to.Sweep(t.Context(), "")
	if err != nil || len(unfinished) > 0 {
		t.Fatalf("unfinished uploads are left over: %v %v", unfinished, err)
	}
}

// The current file of the log has a transaction with rows above max_allowed_packet. Backups still succeed: MariaDB's dump program would
// crash, so the agent makes the server begin the next file.
func TestBackupBehindALargeEvent(t *testing.T) {
	rig.Long(t)
	t.Parallel()
	s, to := start(t, server.MariaDB, "--max-allowed-packet=1M"), folder(t)
	s.Exec("CREATE TABLE shop.bulky (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB)", "INSERT INTO shop.bulky VALUES (1, REPEAT('x', 900000), REPEAT('y', 900000))")
	_, _, err := backup.Run(t.Context(), options(s, to, nil))
	assert.NilError(t, err)
	got, _, err := attempt(t.Context(), t, server.MariaDB, to, "latest", nil)
	assert.NilError(t, err)
	assert.Equal(t, len(got["shop.bulky"]), 1)
}

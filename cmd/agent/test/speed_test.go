// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A backup runs at 0.8 of the speed of `mysqldump | zstd` or faster, with less than 256 MiB of memory; a restore at 0.8 of
// `zstd -d | mysql` into the same kind of server. Both by the same programs on the same machine, in turns.
func TestSpeed(t *testing.T) {
	if !rig.Full() {
		t.Skip("a benchmark of 1 GiB is part of the full form alone: make backup")
	}
	s, identity, to := rig.Start(t, server.MariaDB, "--innodb-buffer-pool-size=512M"), key(t), folder(t)
	size := 1024
	if text := os.Getenv("BACKUP_MIB"); text != "" {
		if _, err := fmt.Sscan(text, &size); err != nil {
			t.Fatal(err)
		}
	}
	fill(s, size)
	root := strings.TrimPrefix(to.String(), "folder ")
	dump := filepath.Join(t.TempDir(), "dump.zst")
	socket := "--socket=" + s.Root().Address
	hand := "set -o pipefail; " + s.DumpProgram() + " --no-defaults " + socket + " -uroot --single-transaction --master-data=2 --routines --triggers --events --hex-blob" +
		" --order-by-primary --databases big | zstd -q -f -o " + dump
	var byHand, byAgent []time.Duration
	memory := int64(0)
	for range 3 {
		byHand = append(byHand, timed(t, exec.Command("bash", "-c", hand)))
		cmd, out := agent(t, s.Flavour, nil, backupFlags(s, []string{"--folder=" + root, "--report="}, identity)...)
		byAgent = append(byAgent, timed(t, cmd))
		memory = max(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
		t.Logf("by hand %s, by the agent %s, %d MiB of memory, %d bytes stored", byHand[len(byHand)-1], byAgent[len(byAgent)-1], memory, result(t, out).StoredBytes)
	}
	ratio(t, "backup", byHand, byAgent)
	if memory >= 256 {
		t.Errorf("the agent took %d MiB of memory, which must be less than 256", memory)
	}
	byHand, byAgent = nil, nil
	for range 2 {
		byHand = append(byHand, load(t, s, dump))
		volume := t.TempDir()
		cmd, _ := agent(t, s.Flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, "restore", "--folder="+root, "--report=", "--volume="+volume)
		byAgent = append(byAgent, timed(t, cmd))
		t.Logf("loaded by hand in %s, restored by the agent in %s", byHand[len(byHand)-1], byAgent[len(byAgent)-1])
		assert.NilError(t, os.RemoveAll(volume))
	}
	ratio(t, "restore", byHand, byAgent)
}

// fill writes rows as applications have them, some MiB of them.
func fill(s *rig.Server, mib int) {
	s.Exec("CREATE DATABASE big CHARACTER SET utf8mb4", "CREATE TABLE big.rows (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100), body VARCHAR(1000), at DATETIME, amount DECIMAL(10,2)) ENGINE=InnoDB",
		"SET SQL_LOG_BIN = 0",
		"INSERT INTO big.rows (name, body, at, amount) SELECT CONCAT('customer ', seq), REPEAT(CONCAT(MD5(seq), ' it''s text ', seq), 1 + seq % 15), NOW(), seq / 7 FROM big.seq_1_to_2000")
	for rows, target := 2000, mib*(1<<20)/450; rows < target; rows *= 2 {
		s.Exec("SET SQL_LOG_BIN = 0", fmt.Sprintf("INSERT INTO big.rows (name, body, at, amount) SELECT name, CONCAT(LEFT(MD5(id * 7919), 16), SUBSTRING(body, 17)), at, amount + 1 FROM big.rows LIMIT %d", target-rows))
	}
}

func timed(t *testing.T, cmd *exec.Cmd) time.Duration {
	t.Helper()
	words := &server.Tail{}
	cmd.Stderr = words
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, words)
	}
	return time.Since(began)
}

// load loads a dump into a new server, which is what a restore does: make a database, start a server, load, stop it cleanly.
func load(t *testing.T, s *rig.Server, dump string) time.Duration {
	t.Helper()
	i := &restore.Instance{Programs: rig.Programs(t, s.Flavour), Data: filepath.Join(t.TempDir(), "data")}
	began := time.Now()
	assert.NilError(t, i.Init(t.Context()))
	assert.NilError(t, i.Start(t.Context()))
	defer i.Kill()
	timed(t, exec.Command("bash", "-c", "set -o pipefail; zstd -d -c "+dump+" | "+filepath.Join(s.Tools, "mysql")+" --no-defaults -uroot --binary-mode --max-allowed-packet=1G --socket="+i.Options().Address))
	assert.NilError(t, i.Stop(t.Context()))
	took := time.Since(began)
	assert.NilError(t, os.RemoveAll(i.Data))
	return took
}

// ratio compares the best of each: the machine has other things to do at times.
func ratio(t *testing.T, what string, byHand, byAgent []time.Duration) {
	t.Helper()
	best := func(all []time.Duration) time.Duration {
		least := all[0]
		for _, d := range all {
			least = min(least, d)
		}
		return least
	}
	speed := best(byHand).Seconds() / best(byAgent).Seconds()
	t.Logf("%s: %.2f of the speed by hand (%s, %s)", what, speed, best(byHand).Round(time.Millisecond), best(byAgent).Round(time.Millisecond))
	if speed < 0.8 {
		t.Errorf("%s: %.2f of the speed by hand, which must be 0.8 or more", what, speed)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A backup reaches at least 0.8 of the speed of `mysqldump | zstd`, and uses less than 256 MiB of memory. A restore reaches at least
// 0.8 of the speed of `zstd -d | mysql` into the same kind of server. The same programs run alternately on the same machine.
func TestSpeed(t *testing.T) {
	if !rig.Full() {
		t.Skip("a benchmark of 1 GiB runs only in the long form: make suite-backup-agent FORM=long")
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
		byHand = append(byHand, rig.Timed(t, exec.Command("bash", "-c", hand)))
		cmd, out := agent(t, s.Flavour, nil, backupFlags(s, []string{"--folder=" + root, "--report="}, identity)...)
		byAgent = append(byAgent, rig.Timed(t, cmd))
		memory = max(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
		t.Logf("by hand %s, by the agent %s, %d MiB of memory, %d bytes stored", byHand[len(byHand)-1], byAgent[len(byAgent)-1], memory, result(t, out).StoredBytes)
	}
	rig.Ratio(t, "backup", 0.8, byHand, byAgent)
	if memory >= 256 {
		t.Errorf("the agent took %d MiB of memory, which must be less than 256", memory)
	}
	byHand, byAgent = nil, nil
	for range 2 {
		byHand = append(byHand, rig.LoadDump(t, s.Flavour, dump))
		volume := t.TempDir()
		cmd, _ := agent(t, s.Flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, "restore", "--folder="+root, "--report=", "--volume="+volume)
		byAgent = append(byAgent, rig.Timed(t, cmd))
		t.Logf("loaded by hand in %s, restored by the agent in %s", byHand[len(byHand)-1], byAgent[len(byAgent)-1])
		assert.NilError(t, os.RemoveAll(volume))
	}
	rig.Ratio(t, "restore", 0.8, byHand, byAgent)
}

// fill writes some MiB of rows that resemble those of applications.
func fill(s *rig.Server, mib int) {
	s.Exec("CREATE DATABASE big CHARACTER SET utf8mb4", "CREATE TABLE big.items (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100), body VARCHAR(1000), at DATETIME, amount DECIMAL(10,2)) ENGINE=InnoDB",
		"SET SQL_LOG_BIN = 0",
		"INSERT INTO big.items (name, body, at, amount) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "+
			"SELECT CONCAT('customer ', i), REPEAT(CONCAT(LEFT(SHA2(i, 256), 32), ' it''s text ', i), 1 + i % 15), NOW(), i / 7 FROM n")
	for rows, target := 1000, mib*(1<<20)/450; rows < target; rows *= 2 {
		s.Exec("SET SQL_LOG_BIN = 0", fmt.Sprintf("INSERT INTO big.items (name, body, at, amount) SELECT name, CONCAT(LEFT(SHA2(id * 7919, 256), 16), SUBSTRING(body, 17)), at, amount + 1 FROM big.items LIMIT %d", target-rows))
	}
}

// The test prints two ratios for 1 GiB of data. The first is the time that the agent takes to back up the files,
// divided by the time that a plain CLONE takes with the same kind of server. The second is the time that a restore
// takes, divided by the time to copy the same files and flush them to the disk.
func TestSpeedOfFiles(t *testing.T) {
	if !rig.Full() {
		t.Skip("a benchmark of 1 GiB runs only in the long form: make suite-backup-agent FORM=long")
	}
	s, identity, to := startCopied(t, "--innodb-buffer-pool-size=512M"), key(t), folder(t)
	fill(s, 1024)
	root := strings.TrimPrefix(to.String(), "folder ")
	programs := rig.Programs(t, server.MySQL)
	var byHand, byAgent []time.Duration
	files := filepath.Join(t.TempDir(), "copy")
	for range 3 {
		assert.NilError(t, os.RemoveAll(files))
		began := time.Now()
		i := &restore.Instance{Programs: programs, Data: filepath.Join(t.TempDir(), "helper")}
		o := s.Options()
		d := clone.Donor{Name: "the server", Host: "127.0.0.1", Port: s.Port, User: o.User, Password: o.Password, HasTLS: true, Answers: func(context.Context) error { return nil }}
		assert.NilError(t, d.Copy(t.Context(), i, files, func(*server.Conn) error { return nil }))
		byHand = append(byHand, time.Since(began))
		cmd, out := agent(t, s.Flavour, nil, append(backupFlags(s, []string{"--folder=" + root, "--report="}, identity), "--scratch="+t.TempDir())...)
		byAgent = append(byAgent, rig.Timed(t, cmd))
		t.Logf("copied by hand in %s, backed up by the agent in %s, %d bytes stored", byHand[len(byHand)-1], byAgent[len(byAgent)-1], result(t, out).StoredBytes)
	}
	rig.Ratio(t, "backup", 1/1.5, byHand, byAgent)
	byHand, byAgent = nil, nil
	for range 2 {
		volume := t.TempDir()
		byHand = append(byHand, rig.Timed(t, exec.Command("bash", "-c", "cp -r "+files+" "+volume+" && sync -f "+volume)))
		assert.NilError(t, os.RemoveAll(volume))
		volume = t.TempDir()
		cmd, _ := agent(t, s.Flavour, []string{"AGENT_IDENTITIES=" + identity.String()}, "restore", "--folder="+root, "--report=", "--volume="+volume)
		byAgent = append(byAgent, rig.Timed(t, cmd))
		t.Logf("copied by hand in %s, restored by the agent in %s", byHand[len(byHand)-1], byAgent[len(byAgent)-1])
		assert.NilError(t, os.RemoveAll(volume))
	}
	rig.Ratio(t, "restore", 1/1.5, byHand, byAgent)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/internal/contract"

	"filippo.io/age"
	"gotest.tools/v3/assert"
)

// Backups that are interrupted leave no manifest, and are not listed.
func redisInterrupted(t *testing.T, r *redisRig, usual time.Duration) {
	before := len(ids(t, r.bucket))
	for call, size := range map[int]string{1: "100", 2: "5000000"} {
		got := must(t, r.backup(t, withCLI(t, call, killedCLI(size))), contract.ReasonDumpFailed)
		if !strings.Contains(got.Message, "killed") {
			t.Fatalf("the message does not mention the end of redis-cli: %s", got.Message)
		}
	}
	clean(t, r.bucket)
	done := 0
	for seed := range rig.Seeds(4, 100) {
		cmd, out := r.command(t)
		assert.NilError(t, cmd.Start())
		time.Sleep(time.Duration(chance.New(t, int64(seed)).Float64() * 1.1 * float64(usual))) // random: the agent may be killed at any time, even after the backup
		_ = cmd.Process.Kill()
		if cmd.Wait() == nil {
			done++
		}
		now := ids(t, r.bucket)
		if len(now) > before+1 || len(now) == before && cmd.ProcessState.Success() {
			t.Fatalf("seed %d: %d backups are listed, before there were %d: %s", seed, len(now), before, out)
		}
		before = len(now) // one more if the agent was killed after it wrote the manifest
	}
	t.Logf("a backup takes %s; %d backups ended before the kill", usual, done)
}

// killedCLI returns a script that runs redis-cli and kills it after a number of bytes.
func killedCLI(size string) string { return `"$real" "$@" | head -c ` + size + "\nkill -9 $$\n" }

// withCLI returns the environment of an agent in which one call of redis-cli runs a script.
func withCLI(t *testing.T, call int, script string) string {
	t.Helper()
	folder := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\nreal=%[2]s/redis-cli\necho >>%[1]s/calls\n[ \"$(wc -l <%[1]s/calls)\" = %[3]d ] || exec \"$real\" \"$@\"\n%[4]s", folder, rig.Tools(t, rig.Redis), call, script)
	assert.NilError(t, os.WriteFile(filepath.Join(folder, "redis-cli"), []byte(text), 0o700))
	return "PATH=" + folder + ":/usr/bin:/bin"
}

// A restore that was interrupted at any time can be repeated.
func redisRestoreInterrupted(t *testing.T, r *redisRig, id string) {
	want := r.shard(t, id, 1)
	data := func(volume string) string { return filepath.Join(volume, "data") }
	states := map[string][]string{
		"marker":      {"restoring/"},
		"part":        {"restoring/appendonly.aof"},
		"all":         {"restoring/appendonly.aof", "restoring/nodes.conf"},
		"data moved":  {"appendonly.aof", "restoring/nodes.conf"},
		"both moved":  {"appendonly.aof", "nodes.conf", "restoring/"},
		"clean-up":    {"nodes.conf", "restoring/"},
		"other files": {"lost+found/", ".writable"},
	}
	for name, files := range states {
		volume := t.TempDir()
		for _, file := range files {
			folder, name := filepath.Split(filepath.Join(data(volume), file))
			if strings.HasSuffix(file, "/") {
				folder, name = filepath.Join(folder, name), ""
			}
			assert.NilError(t, os.MkdirAll(folder, 0o700))
			if name == "" {
				continue
			}
			assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte("REDIS"), 0o600))
		}
		must(t, r.restore(t, volume, 1, "--backup="+id, "--birth"), "")
		_ = os.Remove(filepath.Join(data(volume), "lost+found"))
		r.isRestored(t, name, volume, want)
	}
	began := time.Now()
	must(t, r.restore(t, t.TempDir(), 1, "--backup="+id), "")
	usual := time.Since(began)
	cut := 0
	for seed := range rig.Seeds(6, 300) {
		random, volume := chance.New(t, int64(seed)), t.TempDir()
		for range 1 + random.Intn(3) {
			cmd, _ := r.restoreCommand(t, volume, 1, "--backup="+id, "--birth")
			assert.NilError(t, cmd.Start())
			time.Sleep(time.Duration(random.Float64() * float64(usual))) // random: the agent may be killed at any time, even after the restore
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed, or ended
			if _, err := os.Stat(filepath.Join(data(volume), "restoring")); err == nil {
				cut++
			}
		}
		must(t, r.restore(t, volume, 1, "--backup="+id, "--birth"), "")
		r.isRestored(t, fmt.Sprint("seed ", seed), volume, want)
	}
	t.Logf("a restore takes %s; %d restores were interrupted", usual, cut)
}

// shard returns the RDB file of a shard.
func (r *redisRig) shard(t *testing.T, id string, shard int) []byte {
	t.Helper()
	entry, err := catalogue.Find(t.Context(), r.bucket.Open(t), id)
	assert.NilError(t, err)
	content := &bytes.Buffer{}
	source := restore.Source{Store: r.bucket.Open(t), Backup: entry.Manifest, Identities: []age.Identity{r.identity}}
	assert.NilError(t, source.Copy(t.Context(), entry.Manifest.Objects[shard], content))
	return content.Bytes()
}

var secondShard = regexp.MustCompile(`^[0-9a-f]{40} :6379@16379 myself,master - 0 0 2 connected 5461-10921\nvars currentEpoch 3 lastVoteEpoch 0\n$`)

// isRestored fails the test unless a volume has the data of the second shard.
func (r *redisRig) isRestored(t *testing.T, what, volume string, want []byte) {
	t.Helper()
	_ = os.Remove(filepath.Join(volume, "data", ".writable"))
	isDone(t, volume)
	got, err := os.ReadFile(filepath.Join(volume, "data", "appendonly.aof"))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: the volume has %d bytes of data, the backup %d (%v)", what, len(got), len(want), err)
	}
	if nodes, err := os.ReadFile(filepath.Join(volume, "data", "nodes.conf")); err != nil || !secondShard.Match(nodes) {
		t.Fatalf("%s: nodes.conf is %q (%v)", what, nodes, err)
	}
}

// Restores that need a decision or a correction by a user are refused immediately, and leave nothing on the volume.
func redisRefused(t *testing.T, r *redisRig) {
	refuse := func(reason contract.Reason, words string, got contract.Result) {
		t.Helper()
		if must(t, got, reason); !strings.Contains(got.Message, words) {
			t.Fatalf("the message lacks %q: %s", words, got.Message)
		}
	}
	began := time.Now()
	refuse(contract.ReasonAccessDenied, "WRONGPASS", r.backup(t, "AGENT_PASSWORD=wrong"))
	refuse(contract.ReasonUsage, "AGENT_PASSWORD is not used: it is empty", r.backup(t, "AGENT_PASSWORD="))
	rig.Promptly(t, began, 10*time.Second, "refusing a wrong password and an empty one")
	volume := t.TempDir()
	refuse(contract.ReasonRefused, "3 shards", r.restore(t, volume, 1, "--shards=4"))
	refuse(contract.ReasonWrongKey, "", (&redisRig{r.RedisCluster, r.bucket, key(t)}).restore(t, volume, 1))
	id := r.forge(t, func(m *manifest.Backup) { m.Server.Flavour = "etcd" })
	refuse(contract.ReasonRefused, "is of etcd", r.restore(t, volume, 1, "--backup="+id))
	id = r.forge(t, func(m *manifest.Backup) { m.Server.Version = "99.1.0" })
	refuse(contract.ReasonRefused, "is of Redis 99.1.0", r.restore(t, volume, 1, "--backup="+id))
	id = r.forge(t, func(m *manifest.Backup) { m.Shards[1].Slots = "5461-10920" })
	refuse(contract.ReasonDamaged, "slot 10921 has no owner", r.restore(t, volume, 1, "--backup="+id))
	id = r.forge(t, func(m *manifest.Backup) { m.Objects[1].PlainSHA256 = m.Objects[0].PlainSHA256 })
	refuse(contract.ReasonDamaged, "", r.restore(t, volume, 1, "--backup="+id))
	refuse(contract.ReasonUsage, "cache-0-0", r.restore(t, volume, 1, "--pod=cache"))
	must(t, r.restore(t, volume, 1, "--pod=cache-1-1"), "") // the pod of a replica
	if left, _ := filepath.Glob(filepath.Join(volume, "*", "*")); len(left) > 0 {
		t.Fatalf("left over: %v", left)
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(volume, "data", "appendonlydir"), 0o700))
	refuse(contract.ReasonNotEmpty, "empty volume", r.restore(t, volume, 1))
	must(t, r.restore(t, volume, 1, "--birth", "--s3-endpoint=http://127.0.0.1:1"), "")
	if left, _ := filepath.Glob(filepath.Join(volume, "data", "*")); len(left) != 1 {
		t.Fatalf("the refused restore changed the volume: %v", left)
	}
}

// forge writes a copy of the newest backup with a changed manifest, and returns the copy's ID.
func (r *redisRig) forge(t *testing.T, change func(*manifest.Backup)) string {
	t.Helper()
	s := r.bucket.Open(t)
	entry, err := catalogue.Find(t.Context(), s, "latest")
	assert.NilError(t, err)
	m := *entry.Manifest
	m.Shards, m.Objects = append([]manifest.Shard{}, m.Shards...), append([]manifest.Object{}, m.Objects...)
	m.ID = manifest.ID(m.Started.Add(-time.Hour), [4]byte{byte(len(ids(t, r.bucket)))})
	for _, o := range m.Objects {
		content, err := s.Get(t.Context(), manifest.Folder(entry.ID)+o.Name, 0)
		assert.NilError(t, err)
		text, err := io.ReadAll(content)
		if err == nil {
			err = s.Put(t.Context(), manifest.Folder(m.ID)+o.Name, bytes.NewReader(text))
		}
		assert.NilError(t, err)
	}
	change(&m)
	text, err := manifest.Encode(&m)
	if err == nil {
		err = s.Create(t.Context(), manifest.Folder(m.ID)+manifest.Name, text)
	}
	assert.NilError(t, err)
	return m.ID
}

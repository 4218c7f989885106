// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/redis/go-redis/v9"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
)

// redisRig is a Redis Cluster with data, a bucket and a key.
type redisRig struct {
	*rig.RedisCluster
	bucket   *rig.Bucket
	identity *age.X25519Identity
}

func startRedis(t *testing.T) *redisRig {
	t.Helper()
	r := &redisRig{rig.StartRedisCluster(t, 3), rig.NewBucket(t), key(t)}
	r.Fill()
	return r
}

// command prepares a backup of the cluster through the replica of its third shard.
func (r *redisRig) command(t *testing.T, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	return agent(t, rig.Redis, env, append([]string{"backup", "redis", "--server=" + r.Replicas[2].Address(), "--recipient=" + r.identity.Recipient().String()}, bucketFlags(r.bucket)...)...)
}

// backup makes a backup.
func (r *redisRig) backup(t *testing.T, env ...string) contract.Result {
	t.Helper()
	cmd, out := r.command(t, env...)
	_ = cmd.Run() // the result has the error
	got := result(t, out)
	if code := cmd.ProcessState.ExitCode(); code != contract.Exits[got.Reason] {
		t.Fatalf("exit code %d contradicts the result %+v", code, got)
	}
	return got
}

// must fails the test unless the result has this reason; "" for success.
func must(t *testing.T, got contract.Result, reason contract.Reason) contract.Result {
	t.Helper()
	if got.Reason != reason || got.OK != (reason == "") {
		t.Fatalf("wanted %q, got %+v", reason, got)
	}
	return got
}

// restoreCommand prepares the restore of a shard to a volume.
func (r *redisRig) restoreCommand(t *testing.T, volume string, shard int, more ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "identities")
	assert.NilError(t, os.WriteFile(file, []byte(r.identity.String()), 0o600))
	arguments := append([]string{"restore", "redis", "--volume=" + volume, "--data=data", "--shards=3", fmt.Sprintf("--pod=new-cache-%d-0", shard)}, bucketFlags(r.bucket)...)
	return agent(t, rig.Redis, []string{"AGENT_IDENTITIES_FILE=" + file}, append(arguments, more...)...)
}

func (r *redisRig) restore(t *testing.T, volume string, shard int, more ...string) contract.Result {
	t.Helper()
	cmd, out := r.restoreCommand(t, volume, shard, more...)
	_ = cmd.Run() // the result has the error
	return result(t, out)
}

// restored starts a new cluster on the restored volumes of a backup.
func (r *redisRig) restored(t *testing.T, id string) *rig.RedisCluster {
	t.Helper()
	c := r.volumes(t, id)
	c.Meet()
	return c
}

// volumes starts the servers of a new cluster, before they form the cluster.
func (r *redisRig) volumes(t *testing.T, id string) *rig.RedisCluster {
	t.Helper()
	c := &rig.RedisCluster{T: t}
	for shard := range 3 {
		volume := t.TempDir()
		must(t, r.restore(t, volume, shard, "--backup="+id, "--birth"), "")
		isDone(t, volume)
		c.Masters = append(c.Masters, rig.StartRedis(t, filepath.Join(volume, "data")))
	}
	return c
}

// isDone fails the test unless the volume has exactly the files that start.sh requires.
func isDone(t *testing.T, volume string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(volume, "data", "*"))
	assert.NilError(t, err)
	var names []string
	for _, path := range found {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Fatalf("%s: %v, %v", path, info, err)
		}
		names = append(names, filepath.Base(path))
	}
	if fmt.Sprint(names) != "[appendonly.aof nodes.conf]" {
		t.Fatalf("the restore left the files %v", names)
	}
}

// complete fails the test unless a backup has all keys.
func (r *redisRig) complete(t *testing.T, got contract.Result, acked []string, want map[string]string) {
	t.Helper()
	has := r.has(t, got.ID)
	for _, name := range acked {
		if !has[name] {
			t.Fatalf("the backup lacks %s, which was acknowledged before", name)
		}
	}
	for name := range want {
		if !has[name] {
			t.Fatalf("the backup lacks key %q", name)
		}
	}
	t.Logf("%d writes were acknowledged before; %d keys were saved; %v", len(acked), len(has), got.Warnings)
}

// has returns the keys of a backup. It omits a key that is not in the file of the shard that owns the key's slot.
func (r *redisRig) has(t *testing.T, id string) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	for _, s := range r.volumes(t, id).Masters {
		names, err := s.Do(t.Context(), "KEYS", "*").StringSlice()
		assert.NilError(t, err)
		own, pipe := s.OwnedSlots(), s.Pipeline()
		for _, name := range names {
			pipe.ClusterKeySlot(t.Context(), name)
		}
		found, err := pipe.Exec(t.Context())
		assert.NilError(t, err)
		for i, name := range names {
			if own[int(found[i].(*redis.IntCmd).Val())] {
				keys[name] = true
			}
		}
		s.Kill()
	}
	return keys
}

// A backup that copies each shard's replica is restored to a new cluster. The cluster has all keys and no others.
func TestRedis(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	want := r.Keys()
	old := manifest.Folder(manifest.ID(time.Now().Add(-25*time.Hour), [4]byte{1})) + "shard-0.rdb"
	assert.NilError(t, r.bucket.Open(t).Put(t.Context(), old, strings.NewReader("left over")))
	got := must(t, r.backup(t), "")
	if fmt.Sprint(got.Removed) != "["+old+"]" {
		t.Fatalf("of the leftovers of an earlier run, the agent removed %v", got.Removed)
	}
	took := time.Duration(got.Seconds * float64(time.Second))
	if got.Rows != int64(len(want)) || got.Tables != 3 || len(got.Warnings) > 0 {
		t.Fatalf("of %d keys, the result is %+v", len(want), got)
	}
	began := time.Now()
	c := r.restored(t, got.ID)
	t.Logf("%d keys, %d bytes: a backup takes %s, until a new cluster is well %s", len(want), got.Bytes, took, time.Since(began))
	if diff := rig.KeysDiffer(c.Keys(), want); diff != "" {
		t.Fatal(diff)
	}
	for i, s := range c.Masters {
		if s.Slots() != r.Masters[i].Slots() || s.Slots() == "" {
			t.Fatalf("shard %d has slots %s, want %s", i, s.Slots(), r.Masters[i].Slots())
		}
		if found, _ := filepath.Glob(filepath.Join(s.Data, "appendonlydir", "*.manifest")); len(found) != 1 {
			t.Fatalf("Redis stores its data in %v", found)
		}
	}
	// Writes to the restored cluster survive a restart.
	client := c.Open()
	for i := range 20 {
		assert.NilError(t, client.Set(t.Context(), fmt.Sprint("new:", i), i, 0).Err())
	}
	want = c.Keys()
	for _, s := range c.Masters {
		s.AwaitWritten()
		s.Kill()
		s.Up()
	}
	c.AwaitWell()
	if diff := rig.KeysDiffer(c.Keys(), want); diff != "" {
		t.Fatal(diff)
	}
	for _, s := range c.Masters {
		s.Kill()
	}
	long := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			rig.Long(t)
			test(t)
		})
	}
	long("interrupted", func(t *testing.T) { redisInterrupted(t, r, took) })
	long("restore interrupted", func(t *testing.T) { redisRestoreInterrupted(t, r, got.ID) })
	t.Run("refused", func(t *testing.T) { redisRefused(t, r) })
	long("changes", func(t *testing.T) { redisChanges(t, &redisRig{r.RedisCluster, rig.NewBucket(t), r.identity}) })
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
)

// Writers are at work, slots are moved and masters change while a backup is made: what was acknowledged before it is in it.
func TestRedisChanges(t *testing.T) {
	r := startRedis(t)
	for _, s := range r.All() {
		s.Must("CONFIG", "SET", "repl-diskless-sync", "no") // the other way to send a copy, and the faster one
	}
	want := r.Keys()
	load := r.Write(t, 3, 2*time.Millisecond)
	until(t, "100 writes", time.Minute, func() bool { return len(load.Acks()) >= 100 })
	shard := 0 // masters do not vote twice for the same one within a while
	tests := []struct {
		name string
		// during is done each time when a shard's file arrives in the store.
		during map[string]func(*testing.T)
		reason contract.Reason
		tries  int
	}{
		{name: "writers", tries: 1},
		{name: "a slot is moved", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.open(t, 2, 0)() })}, tries: 2},
		{name: "a slot is open", during: map[string]func(*testing.T){"shard-2.rdb": once(func(t *testing.T) { r.openDuring(t) })}, tries: 2},
		{name: "failover of a shard that was copied", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.failover(t, 0) })}, tries: 2},
		{name: "failover of the next shard", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.failover(t, 1) })}, tries: 2},
		{name: "failovers without end", during: map[string]func(*testing.T){"shard-0.rdb": func(t *testing.T) { shard++; r.failover(t, shard%3) }}, reason: contract.ReasonBusy, tries: 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := r.watch(t, test.during)
			acked := append([]string{}, load.Acks()...)
			before := len(ids(t, r.bucket))
			got := must(t, r.backup(t), test.reason)
			r.bucket.Break(nil)
			if n := seen(); n != test.tries {
				t.Fatalf("the first shard was copied %d times, not %d", n, test.tries)
			}
			clean(t, r.bucket)
			if !got.OK {
				if now := len(ids(t, r.bucket)); now != before {
					t.Fatalf("a backup that failed is listed: %+v", got)
				}
				return
			}
			has := r.has(t, got.ID)
			for _, name := range acked {
				if !has[name] {
					t.Fatalf("%s was acknowledged before the backup, and is not in it", name)
				}
			}
			for name := range want {
				if !has[name] {
					t.Fatalf("the backup lacks key %q", name)
				}
			}
			t.Logf("%d writes were acknowledged before; %d keys were saved; %v", len(acked), len(has), got.Warnings)
		})
	}
}

// once has something done the first time alone.
func once(do func(*testing.T)) func(*testing.T) {
	var first sync.Once
	return func(t *testing.T) { first.Do(func() { do(t) }) }
}

// watch has things done when the files of shards begin to arrive, and returns what counts those of the first shard.
func (r *redisRig) watch(t *testing.T, during map[string]func(*testing.T)) (count func() int) {
	t.Helper()
	arrived := map[string]bool{}
	r.bucket.Break(func(request *http.Request) rig.Fault {
		_, file, ok := strings.Cut(request.URL.Path, "/shard-")
		file, _, _ = strings.Cut("shard-"+file, ".zst")
		if ok && (request.Method == http.MethodPut || request.Method == http.MethodPost) && !arrived[request.URL.Path] {
			arrived[request.URL.Path] = true
			if do := during[file]; do != nil {
				do(t)
			}
		}
		return rig.None
	})
	return func() int {
		n := 0
		for path := range arrived {
			if strings.Contains(path, "/shard-0.") {
				n++
			}
		}
		return n
	}
}

// has returns the keys of a backup that are on the master of their slots.
func (r *redisRig) has(t *testing.T, id string) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	for _, s := range r.volumes(t, id).Masters {
		names, err := s.Do(t.Context(), "KEYS", "*").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		own, pipe := s.OwnedSlots(), s.Pipeline()
		for _, name := range names {
			pipe.ClusterKeySlot(t.Context(), name)
		}
		found, err := pipe.Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if own[int(found[i].(*redis.IntCmd).Val())] {
				keys[name] = true
			}
		}
		s.Kill()
	}
	return keys
}

// master and replica return the servers of a shard as they are now.
func (r *redisRig) master(i int) *rig.RedisServer {
	if r.Masters[i].Says("role:master", "INFO", "replication") {
		return r.Masters[i]
	}
	return r.Replicas[i]
}

func (r *redisRig) replica(i int) *rig.RedisServer {
	if r.master(i) == r.Masters[i] {
		return r.Replicas[i]
	}
	return r.Masters[i]
}

// failover has the replica of a shard become its master.
func (r *redisRig) failover(t *testing.T, i int) {
	t.Helper()
	old, now := r.master(i), r.replica(i)
	var asked time.Time
	rig.Until(t, "the replica is the master", func() bool {
		if time.Since(asked) > 6*time.Second { // one that takes longer than five is given up
			asked = time.Now()
			_ = now.Do(context.Background(), "CLUSTER", "FAILOVER").Err() // it is a master by now, if it fails
		}
		return now.Says("role:master", "INFO", "replication") && old.Says("master_link_status:up", "INFO", "replication")
	})
}

// open begins to move a slot with data from one shard to another, and returns what ends that.
func (r *redisRig) open(t *testing.T, from, to int) (end func()) {
	t.Helper()
	source, target := r.master(from), r.master(to)
	slot, key := 0, ""
	for name := range 300 {
		key = fmt.Sprint("string:", name)
		if n, err := source.ClusterKeySlot(t.Context(), key).Result(); err == nil && source.OwnedSlots()[int(n)] {
			slot = int(n)
			break
		}
	}
	target.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ID())
	source.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ID())
	return func() {
		for {
			names, err := source.ClusterGetKeysInSlot(context.Background(), slot, 100).Result()
			if err != nil {
				t.Error(err)
			}
			if len(names) == 0 {
				break
			}
			words := []any{"MIGRATE", "127.0.0.1", target.Port, "", 0, 5000, "AUTH", rig.Password, "KEYS"}
			for _, name := range names {
				words = append(words, name)
			}
			source.Must(words...)
		}
		for _, s := range []*rig.RedisServer{target, source} {
			s.Must("CLUSTER", "SETSLOT", slot, "NODE", target.ID())
		}
		rig.Until(t, "all know the slot's owner", func() bool {
			for _, s := range r.All() {
				if owner, err := s.ClusterSlots(context.Background()).Result(); err != nil || !owns(owner, slot, target.ID()) {
					return false
				}
			}
			return true
		})
	}
}

func owns(all []redis.ClusterSlot, slot int, id string) bool {
	for _, part := range all {
		if part.Start <= slot && slot <= part.End {
			return part.Nodes[0].ID == id
		}
	}
	return false
}

// openDuring opens a slot, and moves it as soon as the agent has seen it open.
func (r *redisRig) openDuring(t *testing.T) {
	t.Helper()
	looks := func() int {
		var n int
		_, text, _ := strings.Cut(r.Replicas[2].Must("INFO", "commandstats"), "cmdstat_cluster|nodes:calls=")
		_, _ = fmt.Sscan(strings.Split(text+",", ",")[0], &n)
		return n
	}
	end := r.open(t, 2, 1)
	before := looks()
	go func() {
		rig.Until(t, "the agent has looked at the open slot twice", func() bool { return looks() >= before+2 })
		end()
	}()
}

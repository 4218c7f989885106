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

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract"
)

// During a backup, clients write, slots move and masters change. The backup contains all writes that were acknowledged before it began.
func redisChanges(t *testing.T, r *redisRig) {
	for _, s := range r.All() {
		s.Must("CONFIG", "SET", "repl-diskless-sync", "no") // faster than the default
	}
	want := r.Keys()
	load := r.Write(t, 3, 2*time.Millisecond)
	rig.Until(t, "100 writes", func() bool { return len(load.Acks()) >= 100 })
	shard := 0
	tests := []struct {
		name string
		// during maps a shard's file to a function that runs each time the file appears in the store.
		during map[string]func(*testing.T)
		reason contract.Reason
		tries  int
	}{
		{name: "writers", tries: 1},
		{name: "a slot is moved", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.open(t, 2, 0)() })}, tries: 2},
		{name: "a slot is still moving after the last copy", during: map[string]func(*testing.T){"shard-2.rdb": once(func(t *testing.T) { r.openDuring(t) })}, tries: 2},
		{name: "failover of a shard that was copied", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.failover(t, 0) })}, tries: 2},
		{name: "failover of the next shard", during: map[string]func(*testing.T){"shard-0.rdb": once(func(t *testing.T) { r.failover(t, 1) })}, tries: 2},
		{name: "failovers without end", during: map[string]func(*testing.T){"shard-0.rdb": func(t *testing.T) { shard++; r.failover(t, shard%3) }}, reason: contract.ReasonBusy, tries: 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := r.watch(t, test.during)
			acked := load.Acks()
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
			r.complete(t, got, acked, want)
		})
	}
	t.Run("failover in the middle of a copy", func(t *testing.T) {
		acked, seen := load.Acks(), r.watch(t, nil)
		got := must(t, r.backup(t, withCLI(t, 3, `"$real" "$@" | head -c 1000
"$real" -h "$2" -p "$4" CLUSTER FAILOVER
until "$real" -h "$2" -p "$4" ROLE | grep -q master; do sleep 0.05; done
exit 1
`)), "")
		r.bucket.Break(nil)
		if n := seen(); n != 2 {
			t.Fatalf("the first shard was copied %d times, not 2", n)
		}
		r.complete(t, got, acked, want)
	})
	t.Run("a replica is late", func(t *testing.T) { r.late(t, want) })
	t.Run("a replica is gone", func(t *testing.T) {
		acked := load.Acks()
		r.replica(1).Kill()
		got := must(t, r.backup(t), "")
		if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "shard 1 was copied from its master "+r.master(1).Address()) {
			t.Fatalf("the warnings are %q", got.Warnings)
		}
		r.complete(t, got, acked, want)
	})
}

// late makes a backup while the replica of a shard has not yet received the last writes of its master.
func (r *redisRig) late(t *testing.T, want map[string]string) {
	master, replica := r.master(0), r.replica(0) // the agent copies the replica first
	thaw := replica.Freeze()
	defer thaw()
	var acked []string
	pipe, value := master.Pipeline(), strings.Repeat("late", 25000)
	for i := range 600 {
		name := fmt.Sprintf("{%s}late:%d", r.keyOf(t, master), i)
		acked = append(acked, name)
		pipe.Set(t.Context(), name, value, 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	cmd, out := r.command(t)
	before := master.Calls("cluster|nodes")
	assert.NilError(t, cmd.Start())
	rig.Until(t, "the agent looks", func() bool { return master.Calls("cluster|nodes") > before })
	thaw()
	_ = cmd.Wait() // the result has the outcome
	got := must(t, result(t, out), "")
	if len(got.Warnings) > 0 {
		t.Fatalf("the backup copied no replica: %v", got.Warnings)
	}
	r.complete(t, got, acked, want)
}

// keyOf returns a key whose slot belongs to a master.
func (r *redisRig) keyOf(t *testing.T, master *rig.RedisServer) string {
	t.Helper()
	own := master.OwnedSlots()
	for i := range 300 {
		name := fmt.Sprint("string:", i)
		if slot, err := master.ClusterKeySlot(t.Context(), name).Result(); err == nil && own[int(slot)] {
			return name
		}
	}
	t.Fatalf("%s has no key", master.Address())
	return ""
}

// once returns a function that calls do only the first time.
func once(do func(*testing.T)) func(*testing.T) {
	var first sync.Once
	return func(t *testing.T) { first.Do(func() { do(t) }) }
}

// watch calls functions when files of shards appear in the store. The returned function counts the files of the first shard.
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

// master and replica return the present servers of a shard.
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

// failover makes the replica of a shard the shard's master. Each of these tests elects a different server: Redis 7.0 counts the votes of an
// election also for the next one within eight seconds. After a second election of the same server, other masters would take its slots.
func (r *redisRig) failover(t *testing.T, i int) {
	t.Helper()
	old, now := r.master(i), r.replica(i)
	var asked time.Time
	rig.Until(t, "the replica is the master", func() bool {
		if time.Since(asked) > 6*time.Second { // a failover that takes longer than five seconds is abandoned
			asked = time.Now()
			_ = now.Do(context.Background(), "CLUSTER", "FAILOVER").Err() // fails if the server already is a master
		}
		return now.Says("role:master", "INFO", "replication") && old.Says("master_link_status:up", "INFO", "replication")
	})
}

// open begins to move a slot with data from one shard to another. The returned function ends the move.
func (r *redisRig) open(t *testing.T, from, to int) (end func()) {
	t.Helper()
	source, target := r.master(from), r.master(to)
	n, err := source.ClusterKeySlot(t.Context(), r.keyOf(t, source)).Result()
	if err != nil {
		t.Error(err)
	}
	slot := int(n)
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
			want := views(source)[target.ID()]
			for _, s := range r.All() {
				if views(s)[target.ID()] != want {
					return false
				}
			}
			return true
		})
	}
}

// views returns the config epoch and the slots of each node, as a server sees them.
func views(s *rig.RedisServer) map[string]string {
	seen := map[string]string{}
	for line := range strings.Lines(s.Must("CLUSTER", "NODES")) {
		if words := strings.Fields(line); len(words) > 8 {
			seen[words[0]] = fmt.Sprint(words[6], words[8:])
		}
	}
	return seen
}

// openDuring opens a slot during a backup, and moves the slot when the agent has seen that it is open.
func (r *redisRig) openDuring(t *testing.T) {
	t.Helper()
	looks := func() int { return r.Replicas[2].Calls("cluster|nodes") }
	end := r.open(t, 2, 1)
	before := looks()
	go func() {
		rig.Until(t, "the agent has looked at the open slot twice", func() bool { return looks() >= before+2 })
		end()
	}()
}

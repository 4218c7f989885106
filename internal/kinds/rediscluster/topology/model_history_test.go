// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// ledger is what clients were told, as of some seconds before each fault: of that nothing may be lost, and nothing that was
// deleted may come back.
type ledger struct {
	*run
	past []map[int]int // of each second
	safe map[int]int
}

// note keeps what was acknowledged up to now, of the last seconds.
func (l *ledger) note() {
	if l.past = append(l.past, maps.Clone(l.acked)); len(l.past) > 6 {
		l.past = l.past[1:]
	}
}

// work is a number of passes of the operator, with clients beside it.
func (l *ledger) work(d time.Duration) {
	for until := l.now + d; l.now < until; {
		l.onePass()
		l.note()
	}
}

// lost returns what a client that reads all keys misses.
func (l *ledger) lost() []string {
	var all []string
	for key, want := range l.safe {
		got := -1
		for _, s := range l.servers {
			if s.alive() && s.me().master && s.owns(slotOfKey(key)) {
				got = max(got, s.data[key])
			}
		}
		switch deleted := l.deleted[key]; {
		case got <= 0 && deleted < want:
			all = append(all, fmt.Sprintf("key %d is not there, and write %d was acknowledged", key, want))
		case got > 0 && got < max(want, min(deleted, want)):
			all = append(all, fmt.Sprintf("key %d has %d, and %d was acknowledged (deleted by %d)", key, got, want, deleted))
		}
	}
	slices.Sort(all)
	return all
}

// fault is what happens to a cluster whose volumes are all kept. What a client was told some seconds before stays.
func (l *ledger) fault() {
	if len(l.past) > 0 {
		l.safe = l.past[0]
	}
	names := slices.Sorted(maps.Keys(l.pods))
	shard := l.rnd.IntN(3)
	master, replica := l.role(shard, true), l.role(shard, false)
	if master == nil || replica == nil {
		return
	}
	switch l.rnd.IntN(7) {
	case 0:
		l.logf("EVENT pods come back with each other's addresses")
		var ips []string
		for _, name := range names {
			ips = append(ips, l.pods[name].s.ip)
		}
		few := l.rnd.IntN(2) == 0
		l.rnd.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
		for i, name := range names {
			if p := l.pods[name]; !few || p == master || p.shard != shard && l.rnd.IntN(2) == 0 {
				p.nextIP = ips[i]
				l.kill(p, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
			}
		}
		master.startsAt = l.now + time.Duration(l.rnd.IntN(120))*time.Second
	case 1:
		l.logf("EVENT %s is away for minutes, and then %s", replica.name, master.name)
		l.kill(replica, time.Hour)
		l.work(2 * time.Minute)
		l.safe = l.past[0]
		l.kill(master, time.Duration(30+l.rnd.IntN(120))*time.Second)
		replica.startsAt = l.now
	case 2:
		l.logf("EVENT the key space of %s becomes empty, and %s restarts", master.name, replica.name)
		l.kill(replica, time.Hour)
		l.work(time.Duration(1+l.rnd.IntN(20)) * time.Second)
		l.empty(master.s)
		l.work(6 * time.Second)
		l.safe = l.past[0]
		replica.startsAt, replica.s.noLinkUntil = l.now, l.now+10*time.Second
	case 3:
		l.logf("EVENT the file of %s is damaged", master.name)
		l.kill(master, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
		l.volumes[master.name].damaged = true
	case 4:
		l.logf("EVENT the volume of %s is one of the past", master.name)
		past := master.s.snapshot()
		l.servers = append(l.servers, past)
		l.work(10 * time.Second)
		l.safe = l.past[0]
		l.kill(master, time.Minute)
		l.volumes[master.name] = past
	case 5:
		l.logf("EVENT %s restarts without its data under its old id, and %s is cut off from it", master.name, replica.name)
		l.kill(master, time.Second)
		clear(l.volumes[master.name].data)
		replica.s.noLinkUntil = l.now + 12*time.Second
	case 6:
		l.logf("EVENT a new node without data has the address of %s", master.name)
		master.nextIP = master.s.ip
		l.kill(master, time.Duration(l.rnd.IntN(3000))*time.Millisecond)
		l.volumes[master.name] = nil
	}
}

// role returns a pod of a shard by its server's present role, or nil.
func (l *ledger) role(shard int, master bool) *pod {
	for _, name := range slices.Sorted(maps.Keys(l.pods)) {
		if p := l.pods[name]; p.shard == shard && p.running && p.s.me().master == master {
			return p
		}
	}
	return nil
}

// empty has a client delete all keys of a server, and write no others to it for a while.
func (l *ledger) empty(s *server) {
	for key := range s.data {
		l.acked[key]++
		l.deleted[key] = l.acked[key]
		delete(s.data, key)
	}
	s.offset += 10
	s.queueUntil = l.now + 30*time.Second
}

// No fault that leaves all volumes costs what was acknowledged seconds before it.
func TestModelHistory(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 10) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			for _, lost := range history(t, seed, "") {
				t.Error(lost)
			}
		})
	}
}

// history runs faults, and returns what was lost, the first time that something is.
func history(t *testing.T, seed uint64, without string) []string {
	t.Helper()
	l := &ledger{run: newRun(t, seed, 3, 2, 2)}
	l.wanted.Shards, l.planned, l.without = []int{2, 2, 2}, false, without
	l.settle(time.Minute)
	for range 8 {
		l.crashes(3)
		l.work(8 * time.Second)
		l.fault()
		l.mend()
		if lost := l.lost(); len(lost) > 0 {
			return lost
		}
	}
	return nil
}

// mend waits until all is well again; nobody consents to anything.
func (l *ledger) mend() {
	l.t.Helper()
	for end := l.now + 10*time.Minute; l.now < end; {
		if d := l.onePass(); d.Model.Settled {
			return
		}
	}
	if l.without == "" {
		l.t.Fatalf("not settled: %s, %s, steps %v", l.last.Model.Verdict, l.last.Model.Reason, l.last.Steps)
	}
}

// With each proof taken out, the model finds what is lost without it.
func TestModelNeedsEachProof(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		proof string
		seed  uint64 // the first with which something was lost
		what  string
	}{
		{"user", 46, "a replication user for each shard: a replica copies a stranger at its master's address"},
		{"user, history", 0, "and the recorded history: it is promoted with the stranger's data"},
		{"admission", 1, "no replica of a new node before it was let join: a replica copies an empty node at its master's address"},
		{"link", 1, "the link until the master was lost: a replica of minutes ago is promoted"},
		{"run", 0, "the start of the master: one that is empty by right is replaced"},
		{"file", 8, "no start on a damaged file: its replica is made like the rest of it"},
	} {
		t.Run(c.proof, func(t *testing.T) {
			t.Parallel()
			for seed := c.seed; seed < c.seed+100; seed++ {
				if lost := history(t, seed, c.proof); len(lost) > 0 {
					t.Logf("%s. Seed %d: %s", c.what, seed, lost[0])
					return
				}
			}
			t.Errorf("nothing is lost without this proof: %s", c.what)
		})
	}
}

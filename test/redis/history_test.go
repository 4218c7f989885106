// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/redis/rig"
)

// histories are faults after which a replica follows an address that is another node's, or has data of the past. Nothing is lost.
var histories = []fault{
	{name: "a master of another shard comes back with the address of a master that is late", happen: func(s *scenario) {
		late, other := s.master(0), s.master(1)
		ip := late.Leave()
		other.Move(ip)
		s.drive(30 * time.Second)
		late.Replace()
	}},
	{name: "a replica of another shard comes back with the address of a master that is late", happen: func(s *scenario) {
		late, other := s.master(0), s.replica(1)
		ip := late.Leave()
		other.Move(ip)
		s.drive(30 * time.Second)
		late.Replace()
	}},
	{name: "all come back with each other's addresses, and one master is late", happen: func(s *scenario) {
		late := s.master(0)
		s.exchange(late)
		s.drive(30 * time.Second)
		late.Replace()
	}},
	{name: "clusters that share a password exchange addresses", within: time.Minute, happen: func(s *scenario) {
		other := rig.NewFleet(s, rig.Options{Shards: []int{1, 1, 1}, Namespace: "other", Password: s.f.Access().Password})
		rig.NewDriver(other).Form(0)
		theirs := fill(s.T, other, 500)
		late, moved := s.master(0), other.Pod(0, 0)
		ip := late.Leave()
		back := moved.Leave()
		moved.Move(ip)
		s.drive(30 * time.Second)
		late.Move(back)
		s.serves(time.Minute)
		if err := theirs.Differ(digest(s.T, other)); err != nil {
			s.Errorf("the other cluster's data: %v", err)
		}
	}},
	{name: "a new node without data comes back with the address of its master", happen: func(s *scenario) {
		lost := s.master(0)
		ip := lost.Leave()
		lost.Wipe()
		lost.Move(ip)
	}},
	{name: "a replica is away, its master is written to and deleted, and a majority is lost", happen: func(s *scenario) {
		replica, master := s.replica(0), s.master(0)
		replica.Kill()
		s.isMissed()
		assert.NilError(s, s.f.Fill(s.Context(), 3000, 20))
		s.before = digest(s.T, s.f)
		down := []*rig.Pod{master, s.master(1), s.replica(1)}
		for _, pod := range down {
			pod.Stop()
		}
		replica.Begin()
		s.drive(45 * time.Second)
		if role, err := replica.Role(s.Context()); err != nil || role != "slave" {
			s.Errorf("the replica of the past is a %s (%v)", role, err)
		}
		if d := s.d.Pass(s.Context()); !strings.Contains(d.Model.Reason, "restarted since it was in step") || !strings.Contains(d.Model.Reason, "accept-data-loss") {
			s.Errorf("the reason does not say what is known: %s", d.Model.Reason)
		}
		for _, pod := range down {
			pod.Start()
		}
	}},
	{name: "a master is empty by right, and its replica restarts without a link", happen: func(s *scenario) {
		master, replica := s.master(0), s.replica(0)
		replica.Kill()
		s.isMissed()
		s.send(master, "FLUSHALL")
		s.send(master, "CONFIG", "SET", "maxclients", "1") // the replica is refused; the test's connection is there
		s.before = digest(s.T, s.f)
		replica.Begin()
		s.drive(10 * time.Second)
		if role, err := master.Role(s.Context()); err != nil || role != "master" {
			s.Errorf("the master is a %s (%v)", role, err)
		}
		s.send(master, "CONFIG", "SET", "maxclients", "1000")
	}},
}

// drive drives for a time.
func (s *scenario) drive(long time.Duration) {
	s.Helper()
	for until := time.Now().Add(long); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		s.d.Pass(s.Context())
	}
}

// exchange has all pods but one come back with each other's addresses: each shard with those of the one before it.
func (s *scenario) exchange(late *rig.Pod) {
	s.Helper()
	pods := s.f.Pods()
	var ips []string
	for _, pod := range pods {
		pod.Stop()
		ips = append(ips, pod.Leave())
	}
	for i, pod := range pods {
		if pod != late {
			pod.Move(ips[(i+2)%len(ips)])
		}
	}
}

// files are damages of a master's files. It does not start on them, and its replica does not become like them.
var files = []fault{
	damage("a length in the middle of a file looks like a cut tail", ".incr.aof", func(text string) string {
		at := strings.Index(text[len(text)/2:], "\r\n$20") + len(text)/2
		return text[:at] + "\r\n$99999999\r\n" + text[at+14:]
	}),
	damage("the second half of a file is zeros", ".incr.aof", func(text string) string {
		return text[:len(text)/2] + strings.Repeat("\x00", len(text)-len(text)/2)
	}),
	damage("the first file is empty", ".base.rdb", func(string) string { return "" }),
	damage("the first file is damaged", ".base.rdb", func(text string) string {
		return text[:len(text)/2] + "xxxxxxxx" + text[len(text)/2+8:]
	}),
	damage("the first file is cut off", ".base.rdb", func(text string) string { return text[:len(text)/2] }),
	{name: "the tail of a master's file is cut off", happen: func(s *scenario) {
		master := s.master(0)
		assert.NilError(s, master.Client().Set(s.Context(), s.keyOf(master), "the last write", 0).Err())
		s.written()
		master.Kill()
		change(s, master, ".incr.aof", func(text string) string { return text[:len(text)-5] })
		master.Begin()
		s.serves(time.Minute)
		s.d.Settle(time.Minute, "it heals")
		if !master.Wrote("are no complete command") && !master.Wrote("starts as a new node") {
			s.Errorf("the log does not say that a command was cut off: %s", master.Log())
		}
		s.before = digest(s.T, s.f)
	}},
}

// damage is a damage of a file that holds half of a master's data.
func damage(name, suffix string, how func(text string) string) fault {
	return fault{name: "a master's file is damaged: " + name, within: time.Minute, happen: func(s *scenario) {
		master := s.master(0)
		s.send(master, "BGREWRITEAOF")
		s.written()
		assert.NilError(s, s.f.Fill(s.Context(), 4000, 20))
		s.before = digest(s.T, s.f)
		s.written()
		master.Kill()
		file := change(s, master, suffix, how)
		master.Begin()
		named := false
		s.d.Until(time.Minute, "the replica takes over", func(d topology.Decision) error {
			named = named || strings.Contains(d.Model.Reason, file) || strings.Contains(master.Refuses(), file)
			if d.Model.Served < topology.Slots {
				return fmt.Errorf("%d slots: %s", d.Model.Served, d.Model.Reason)
			}
			return nil
		})
		s.d.Settle(2*time.Minute, "it heals")
		if !named && !master.Wrote(file+" is damaged") {
			s.Errorf("nothing named %s; the pod said: %s", file, master.Refuses())
		}
		kept, err := filepath.Glob(filepath.Join(master.Dir(), "appendonlydir.damaged", "*"+suffix))
		if err != nil || len(kept) != 1 {
			s.Errorf("the damaged file is not kept: %v (%v)", kept, err)
		}
	}}
}

// change changes a file of a pod's data, and returns its name.
func change(s *scenario, pod *rig.Pod, suffix string, how func(string) string) string {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(pod.Dir(), "appendonlydir", "*"+suffix))
	assert.NilError(s, err)
	assert.Equal(s, len(found), 1, "%v", found)
	text, err := os.ReadFile(found[0])
	assert.NilError(s, err)
	assert.NilError(s, os.WriteFile(found[0], []byte(how(string(text))), 0o644))
	return filepath.Base(found[0])
}

// keyOf returns a key of a slot that a master owns.
func (s *scenario) keyOf(master *rig.Pod) string {
	s.Helper()
	mine := owned(s.T, master)
	for i := range 1000 {
		key := fmt.Sprintf("ledger-of-%d", i)
		if slot, err := master.Client().ClusterKeySlot(s.Context(), key).Result(); err == nil && mine.Has(int(slot)) {
			return key
		}
	}
	s.Fatalf("no key is of %s", master.Name)
	return ""
}

// A copy of all volumes, the password and the record does not start, and takes nothing of what the original's clients write.
func TestCloneDoesNotMerge(t *testing.T) {
	t.Parallel()
	f, d, _ := formed(t, 2, 2, 2)
	s := &scenario{T: t, f: f, d: d}
	s.before = fill(t, f, 1000)
	s.written()
	ledger := f.Keep(rig.LedgerOptions{})
	clone := rig.NewFleet(t, rig.Options{Shards: []int{2, 2, 2}, Namespace: "clone", CloneOf: f})
	theirs := rig.NewDriver(clone)
	var last topology.Decision
	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		d.Pass(t.Context())
		last = theirs.Pass(t.Context())
	}
	ledger.Close().Nothing(t, "a clone is started")
	d.Settle(time.Minute, "the original is as before")
	unchanged(t, f, s.before)
	for _, pod := range clone.Pods() {
		if pod.Running() || !strings.Contains(pod.Refuses(), "is a copy of that of data/"+pod.Name) {
			t.Errorf("%s runs: %v; it says %q", pod.Name, pod.Running(), pod.Refuses())
		}
	}
	if !strings.Contains(last.Model.Reason, "ForeignVolume") {
		t.Errorf("the clone's status does not say why: %s", last.Model.Reason)
	}
}

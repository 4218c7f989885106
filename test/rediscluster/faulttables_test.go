// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/harness"
)

// away is the minimum time for which a stopped server stays away.
var away = func() time.Duration {
	if full {
		return time.Minute
	}
	return 15 * time.Second
}()

// addresses are faults after which a replica has old data, or follows an address that another server now has. No data is lost.
var addresses = []scenario{
	{name: "a master of another shard gets the address of a stopped master", happen: func(s *scene) { s.late(s.master(1)) }},
	{name: "a replica of another shard gets the address of a stopped master", full: true, happen: func(s *scene) { s.late(s.replica(1)) }},
	{name: "a node loses its data and keeps its address", happen: func(s *scene) {
		lost := s.master(0)
		back := s.holdAll(syscall.SIGKILL, lost)
		s.loseVolume(lost, s.address(lost))
		back()
	}},
	// A node that finds a foreign id at a master's address forgets the address, and never marks the master as failed.
	{name: "clusters with the same password exchange addresses", full: true, happen: func(s *scene) {
		other := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		s.CreateWith(other, &other.Spec, "{replicas: 6, repository: redis, credentialsSecret: mine}")
		well := func() bool {
			now := harness.Lookup[*redisv1.RedisCluster](s.Journal, "other")
			return now != nil && now.Status.Phase == redisv1.PhaseRunning && now.Status.Ready == "6/6"
		}
		s.Eventually("the other cluster is well", well)
		theirs := s.clientsOf("other")
		for i := range 100 {
			s.Must(theirs.Set(s.Ctx, keyNumber(i), "theirs", 0).Err())
		}
		s.Must(theirs.Close()) // this client would still connect to the old addresses
		master, moved := s.master(0), "other-0-0"
		back, address := s.holdAll(syscall.SIGKILL, master), s.address(moved)
		s.recreate(moved, s.address(master))
		s.servesAll(30 * time.Second)
		s.Pass(away)
		s.recreate(master, address)
		back()
		s.agree(6)
		s.Eventually("the other cluster is well", well)
		theirs = s.clientsOf("other")
		defer theirs.Close()
		for i := range 100 {
			if value, err := theirs.Get(s.Ctx, keyNumber(i)).Result(); value != "theirs" {
				s.Errorf("the other cluster has %q as %s (%v)", value, keyNumber(i), err)
			}
		}
		s.Must(suite.API.Delete(s.Ctx, other))
	}},
	{name: "all pods exchange addresses, and one master starts last", ledger: true, happen: func(s *scene) {
		ips, late := s.addresses(), s.master(2)
		last := s.Hold(late, "redis", syscall.SIGTERM)
		back := s.holdAll(syscall.SIGTERM, s.others(late)...)
		for i, pod := range s.pods() {
			address := ips[(i+2)%len(ips)]
			if pod.Name == late {
				address = ""
			}
			s.recreate(pod.Name, address)
		}
		back()
		s.Pass(away)
		last()
	}},
	{name: "a replica is stopped, its master gets writes and ends", ledger: true, happen: func(s *scene) { s.ofThePast() }},
	{name: "a replica is stopped, its master gets writes and ends, and a majority is lost", full: true, ledger: true, happen: func(s *scene) {
		s.ofThePast(s.master(1), s.replica(1))
	}},
	{name: "a client empties a master, and its replica restarts with keys", full: true, alone: true, happen: func(s *scene) {
		master, replica := s.pair(0)
		back := s.holdAll(syscall.SIGKILL, replica)
		user := "replica:" + s.Namespace + "/" + name + "-0"
		hash := s.passwordOf(master, user)
		s.do(master, "ACL", "SETUSER", user, "!"+hash) // the operator enables a disabled user
		s.do(master, "FLUSHALL")
		s.back = func() { s.do(master, "ACL", "SETUSER", user, "#"+hash) }
		back()
		s.Eventually("the replica has started with keys", func() bool { return s.has(replica) > 0 })
	}, end: func(s *scene) {
		s.Pass(away)
		if n := s.has(s.master(0)); n != 0 {
			s.Errorf("the emptied master has %d keys", n)
		}
		s.back()
		s.agree(6)
		for shard := range 3 {
			if n := s.has(s.replica(shard)); (n == 0) != (shard == 0) {
				s.Errorf("a replica of shard %d has %d keys", shard, n)
			}
		}
		s.write()
	}},
}

// late stops the master of shard 0 and gives its address to another server before the master starts again. The replica
// follows the address, and must not copy the data of the other server.
func (s *scene) late(other string) {
	s.Helper()
	master, heir := s.pair(0)
	slot := s.slot(s.here(0, 1)[0])
	s.do(heir, "CONFIG", "SET", "cluster-replica-no-failover", "yes") // otherwise the heir would be elected, and would follow no server
	address, back := s.address(master), s.holdAll(syscall.SIGKILL, master)
	s.recreate(master, "")
	s.recreate(other, address)
	s.Eventually("the other server answers", func() bool { return s.isA(other, "master") == nil || s.isA(other, "slave") == nil })
	s.Pass(away)
	if n := s.do(heir, "CLUSTER", "COUNTKEYSINSLOT", slot); n != int64(3) {
		s.Errorf("%s has %v keys of slot %d, and had 3", heir, n, slot)
	}
	s.do(heir, "CONFIG", "SET", "cluster-replica-no-failover", "no")
	back()
}

// ofThePast stops a replica, writes to its master, and then stops the master and the pods in others. The replica now has old data.
// ofThePast starts the replica before the master and the others.
func (s *scene) ofThePast(others ...string) {
	s.Helper()
	master, replica := s.pair(0)
	present := s.holdAll(syscall.SIGKILL, replica)
	s.Eventually("it is missed", s.isUnready)
	s.write()
	back := s.holdAll(syscall.SIGTERM, append(others, master)...)
	present()
	s.Pass(away)
	s.says("restarted since it was in sync", "accept-data-loss")
	if err := s.isA(replica, "slave"); err != nil {
		s.Error(err)
	}
	back()
}

// has returns the number of keys of a server.
func (s *scene) has(pod string) int64 {
	n, _ := s.try(pod, "DBSIZE") // 0 without an answer
	count, _ := n.(int64)
	return count
}

// passwordOf returns the SHA-256 of a user's only password, in the form of ACL SETUSER.
func (s *scene) passwordOf(pod, user string) string {
	s.Helper()
	said, _ := s.do(pod, "ACL", "GETUSER", user).([]any)
	for i, word := range said {
		if word == "passwords" {
			return strings.Trim(fmt.Sprint(said[i+1]), "[]")
		}
	}
	s.Fatalf("user %s has no password: %v", user, said)
	return ""
}

// slots are faults that happen while slots are open, as if a move was interrupted at one command.
var slots = []scenario{
	{name: "source and target start again at other addresses", full: true, alone: true, happen: func(s *scene) { s.open(0, 1); s.Must(s.ChangeAddresses(s.Ctx)) }},
	{name: "the source fails over on command", full: true, alone: true, happen: func(s *scene) {
		s.open(0, 1)
		heir := s.replica(0)
		s.do(heir, "CLUSTER", "FAILOVER")
		s.elected(heir)
	}},
	{name: "the source is killed", alone: true, happen: func(s *scene) { s.open(0, 1); s.failsOver(0) }},
	{name: "the target is killed", full: true, alone: true, happen: func(s *scene) { s.open(0, 1); s.failsOver(1) }},
	{name: "the replica of the source is stopped", full: true, alone: true, happen: func(s *scene) {
		s.open(0, 1)
		s.back = s.holdAll(syscall.SIGKILL, s.replica(0))
	}, end: func(s *scene) { s.Eventually("it is missed", s.isUnready); s.back() }},
	{name: "source and target have a key", alone: true, happen: func(s *scene) {
		s.open(0, 1)
		for _, i := range []int{1, 4} { // the source has marked only the second of these slots as open
			s.put(s.master(1), s.here(0, 2)[i], "of the past")
		}
	}},
	// The operator undoes a move if the target accepts no keys. Other steps continue: a pod that lost its volume joins, and the operator
	// applies the setting that solves the problem.
	{name: "the target is full", alone: true, ledger: true, happen: func(s *scene) {
		s.open(0, 1)
		s.do(s.master(1), "CONFIG", "SET", "maxmemory", "1mb")
		s.loseVolume(s.replica(2), "")
	}, end: func(s *scene) {
		s.says(s.master(1) + " accepts no more keys, its memory is full: raise maxmemory")
		s.Until("the move is undone, and the empty pod joins", func() error {
			if marks := s.openSlots(); len(marks) > 0 {
				return fmt.Errorf("open: %v", marks)
			}
			return harness.Mentions(s.info(s.replica(2), "replication"), "master_link_status:up")
		})
		s.change("{config: {maxmemory: '0'}}")
	}},
}

// here returns three keys of each of the first slots that a shard owns.
func (s *scene) here(shard, slots int) (names []string) {
	s.Helper()
	mine := s.owned()[shard]
	for i := 0; len(names) < 3*slots; i++ {
		if mine.Has(s.slot(keyNumber(i))) {
			names = append(names, keyNumber(i), keyNumber(i+keys/3), keyNumber(i+2*keys/3))
		}
	}
	return names
}

// slot returns the slot of a key.
func (s *scene) slot(key string) int {
	s.Helper()
	return int(s.do(s.pods()[0].Name, "CLUSTER", "KEYSLOT", key).(int64))
}

// open leaves four slots in an interrupted move between the masters of two shards: before the source marks the slot, before a key has
// moved, with some keys moved, and with all keys moved.
func (s *scene) open(from, to int) {
	s.Helper()
	source, target, names := s.master(from), s.master(to), s.here(from, 4)
	for i, moved := range []int{0, 0, 1, 3} {
		keys := names[3*i : 3*i+3]
		s.do(target, "CLUSTER", "SETSLOT", s.slot(keys[0]), "IMPORTING", s.do(source, "CLUSTER", "MYID"))
		if i > 0 {
			s.do(source, "CLUSTER", "SETSLOT", s.slot(keys[0]), "MIGRATING", s.do(target, "CLUSTER", "MYID"))
		}
		for _, key := range keys[:moved] {
			s.do(source, "MIGRATE", s.address(target), 6379, key, 0, 5000, "AUTH", s.taken())
		}
	}
	s.inStep()
}

// put sets a key on a master that imports its slot or does not own it.
func (s *scene) put(pod, key, value string) {
	s.Helper()
	c := s.node(s.pod(pod))
	defer c.Close()
	pipe := c.Pipeline()
	pipe.Do(s.Ctx, "ASKING")
	pipe.Set(s.Ctx, key, value, 0)
	_, err := pipe.Exec(s.Ctx)
	s.Must(err)
}

// failsOver kills the master of a shard, and lets it start again after its replica is elected.
func (s *scene) failsOver(shard int) {
	s.Helper()
	master, heir := s.pair(shard)
	back := s.holdAll(syscall.SIGKILL, master)
	s.elected(heir)
	back()
}

// openSlots returns the marks of open slots.
func (s *scene) openSlots() (marks []string) {
	for _, pod := range s.pods() {
		text, _ := s.try(pod.Name, "CLUSTER", "NODES")
		entries, _ := topology.ParseNodes(strings.TrimSpace(fmt.Sprint(text))) // without an answer, the list is empty
		for _, e := range entries {
			if len(e.Migrating)+len(e.Importing) > 0 {
				marks = append(marks, fmt.Sprint(pod.Name, e.Migrating, e.Importing))
			}
		}
	}
	return marks
}

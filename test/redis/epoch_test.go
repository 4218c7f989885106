// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/redis/rig"
)

// scribe writes down what is sent to each node, in order.
type scribe struct {
	mu   sync.Mutex
	sent []string // pod, then the command
}

func (s *scribe) Send(node topology.Place, commands []string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range commands {
		s.sent = append(s.sent, node.Pod+" "+node.IP+" "+command)
	}
	return len(commands), nil
}

func (s *scribe) Received(topology.Place, []string) error { return nil }

// epochs checks that each new node got a config epoch of its own, above those that masters had, before it met anybody, and
// returns how many did. old are the addresses of nodes that have one.
func (s *scribe) epochs(t *testing.T, highest uint64, old ...string) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	has := map[string]bool{}
	for _, ip := range old {
		has[ip] = true
	}
	for _, line := range s.sent {
		words := strings.SplitN(line, " ", 3)
		ip, command := words[1], words[2]
		var epoch uint64
		if n, _ := fmt.Sscanf(command, "CLUSTER SET-CONFIG-EPOCH %d", &epoch); n == 1 {
			if epoch <= highest {
				t.Errorf("%s got config epoch %d, and another one has %d", words[0], epoch, highest)
			}
			highest = max(highest, epoch)
			has[ip] = true
		}
		var target string
		if n, _ := fmt.Sscanf(command, "CLUSTER MEET %s", &target); n == 1 && (!has[ip] || !has[target]) {
			t.Errorf("%s met %s before both had a config epoch of their own", words[0], target)
		}
	}
	s.sent = nil
	return len(has)
}

// epochsOf returns the highest config epoch that a master has by its own word, and all addresses. No two masters may have the same.
func epochsOf(t *testing.T, f *rig.Fleet) (highest uint64, ips []string) {
	t.Helper()
	seen := map[uint64]string{}
	for _, pod := range f.Pods() {
		ips = append(ips, pod.IP())
		for _, e := range view(t, pod) {
			if !e.Myself || !e.Master {
				continue
			}
			if other := seen[e.Epoch]; other != "" || e.Epoch == 0 {
				t.Errorf("%s has config epoch %d, as %q has", pod.Name, e.Epoch, other)
			}
			seen[e.Epoch] = pod.Name
			highest = max(highest, e.Epoch)
		}
	}
	return highest, ips
}

// A node gets a config epoch of its own, above all that there are, before it meets anybody: one that joins with an epoch of 0
// or of the past could lose slots to another one's claim, or take some.
func TestEpochsComeBeforeMeetings(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{2, 2, 2}})
	d, s := rig.NewDriver(f), &scribe{}
	d.Tap = func() server.Tap { return s }
	d.Settle(2*time.Minute, "the cluster forms")
	if n := s.epochs(t, 0); n != 6 {
		t.Errorf("%d of 6 nodes got a config epoch", n)
	}
	highest, ips := epochsOf(t, f)
	d.Wanted.Generation++
	d.Wanted.Shards = []int{2, 2, 2, 2}
	d.Settle(2*time.Minute, "a shard is added")
	if n := s.epochs(t, highest, ips...); n != 8 {
		t.Errorf("%d of 8 nodes got a config epoch", n)
	}
	highest, ips = epochsOf(t, f)
	loseVolume((&scenario{T: t, f: f, d: d}).replica(1))
	d.Settle(time.Minute, "a new node takes the place of a replica")
	if n := s.epochs(t, highest, ips...); n != 9 {
		t.Errorf("%d of 9 nodes got a config epoch", n)
	}
	epochsOf(t, f)
}

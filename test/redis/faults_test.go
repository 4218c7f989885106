// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

const nodeTimeout = 2 * time.Second // of the rig

// scenario is a formed cluster with data, to which something happens.
type scenario struct {
	*testing.T
	f      *rig.Fleet
	d      *rig.Driver
	before rig.Digest
}

// fault is what happens, and how it ends: healed, with all data, unless end says otherwise.
type fault struct {
	name   string
	shards []int // default: 2, 2, 2
	happen func(*scenario)
	// within is how long it may take until all slots are served by nodes that agree. Default: 30s.
	within time.Duration
	end    func(*scenario)
	full   bool // takes minutes
}

// Each fault of the matrix ends in the state that is promised for it.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range slices.Concat(faults, claims, histories, files, pasts) {
		if f.full && !full {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if f.shards == nil {
				f.shards = []int{2, 2, 2}
			}
			if f.within == 0 {
				f.within = 30 * time.Second
			}
			s := &scenario{T: t}
			s.f, s.d, _ = formed(t, f.shards...)
			s.before = fill(t, s.f, 2000)
			s.written()
			f.happen(s)
			if f.end != nil {
				f.end(s)
				return
			}
			s.heals(f.within)
		})
	}
}

// heals drives until all is well, and checks the data.
func (s *scenario) heals(within time.Duration) {
	s.Helper()
	began := time.Now()
	served := s.serves(harness.Bound(within, full))
	s.d.Settle(2*time.Minute, "it heals")
	unchanged(s.T, s.f, s.before)
	if err := s.f.CLICheck(s.Context()); err != nil {
		s.Error(err)
	}
	s.Logf("served again after %s, redundant again after %s (%d passes, %d steps)", round(served), round(time.Since(began)), s.d.Passes, s.d.Steps)
}

// serves drives until all slots are served, and returns how long that took.
func (s *scenario) serves(within time.Duration) time.Duration {
	s.Helper()
	return s.d.Until(within, "all slots are served", func(d topology.Decision) error {
		if d.Model.Served < topology.Slots {
			return fmt.Errorf("%d are served; %s: %s", d.Model.Served, d.Model.Verdict, d.Model.Reason)
		}
		return nil
	})
}

// becomes drives until a verdict is given, and returns the decision with it.
func (s *scenario) becomes(verdict topology.Verdict) (last topology.Decision) {
	s.Helper()
	s.d.Until(90*time.Second, string(verdict), func(d topology.Decision) error {
		if last = d; d.Model.Verdict != verdict {
			return fmt.Errorf("%s: %s", d.Model.Verdict, d.Model.Reason)
		}
		return nil
	})
	return last
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// master and replica return the pods of a shard by their present roles.
func (s *scenario) master(shard int) *rig.Pod  { return s.role(shard, "master") }
func (s *scenario) replica(shard int) *rig.Pod { return s.role(shard, "slave") }

func (s *scenario) role(shard int, want string) *rig.Pod {
	s.Helper()
	for _, pod := range s.f.Pods() {
		if pod.Shard != shard || !pod.Running() {
			continue
		}
		if role, err := pod.Role(s.Context()); err == nil && role == want {
			return pod
		}
	}
	s.Fatalf("shard %d has no %s", shard, want)
	return nil
}

// halfMoved breaks a move off when some of its keys have moved, and returns its slots.
func (s *scenario) halfMoved(from, to int) topology.SlotSet {
	s.Helper()
	slots := owned(s.T, s.master(from)).First(8)
	crash := &rig.Crash{At: 2*slots.Len() + 4, Effects: true}
	s.d.Pipeline = 2
	s.d.Tap = func() server.Tap { return crash }
	s.d.Restart()
	err := s.d.Take(s.Context(), s.d.MoveStep(s.master(from), s.master(to), slots))
	if !errors.Is(err, server.ErrBrokenOff) {
		s.Fatalf("the move was not broken off: %v", err)
	}
	s.d.Tap = nil
	s.d.Restart()
	s.inStep()
	s.heardOf(s.master(to))
	return slots
}

// heardOf waits until all nodes have had an answer of a master that it gave after this call.
//
// A node that has just got a slot tells all others at once, and its last message before that may arrive after it. A
// replica that gets the two in this order, is elected before the next message, and then meets its former master,
// gives the slot back to it and deletes its keys. The former master becomes a replica and drops it, too: nobody owns
// the slot, and no operator can bring its keys back. Redis 7.0 does so, 7.2 does not (redis/redis#12564).
func (s *scenario) heardOf(master *rig.Pod) {
	s.Helper()
	id := s.id(master)
	since := time.Now().Add(100 * time.Millisecond) // what is on its way arrives before
	rig.Until(s, "all have heard of "+master.Name, func() error {
		for _, n := range s.d.Observe(s.Context()) {
			for _, e := range n.View {
				if e.ID == id && !e.Myself && e.PongReceived.Before(since) {
					return fmt.Errorf("%s has not", n.Pod)
				}
			}
		}
		return nil
	})
}

// written waits until all that was acknowledged is in files. With appendfsync everysec that may take two seconds, and a
// server that is killed before and is back before its replica is elected has lost it.
func (s *scenario) written() {
	s.Helper()
	s.inStep()
	for _, pod := range s.f.Pods() {
		rig.Until(s, pod.Name+" has written its file", func() error {
			info, err := pod.Client().Info(s.Context(), "persistence").Result()
			if err == nil && (!strings.Contains(info, "aof_buffer_length:0\r") || strings.Contains(info, "aof_rewrite_in_progress:1")) {
				return errors.New("its buffer is not empty")
			}
			return err
		})
	}
}

// inStep waits until replicas have what their masters have.
func (s *scenario) inStep() {
	s.Helper()
	for _, pod := range s.f.Pods() {
		if role, err := pod.Role(s.Context()); err == nil && role == "master" {
			replicas := 0
			for _, other := range s.f.Pods() {
				if other.Shard == pod.Shard && other != pod && other.Running() {
					replicas++
				}
			}
			assert.NilError(s, pod.Client().Wait(s.Context(), replicas, 5*time.Second).Err())
		}
	}
}

// elected waits, without an operator, until a replica has become master.
func (s *scenario) elected(pod *rig.Pod) {
	s.Helper()
	rig.Until(s, pod.Name+" is elected", func() error {
		if role, err := pod.Role(s.Context()); err != nil || role != "master" {
			return fmt.Errorf("it is a %s (%w)", role, err)
		}
		return nil
	})
}

// stays drives for some passes, and fails if a verdict or a step is not as it should be. While nodes have not noticed
// a failure yet, the verdict may be Unknown.
func (s *scenario) stays(passes int, verdict topology.Verdict, allowed ...topology.Action) topology.Decision {
	s.Helper()
	s.becomes(verdict)
	for range passes {
		last := s.d.Pass(s.Context())
		if last.Model.Verdict != verdict && last.Model.Verdict != topology.Unknown {
			s.Errorf("the verdict is %s (%s), not %s", last.Model.Verdict, last.Model.Reason, verdict)
		}
		for _, step := range last.Steps {
			ok := step.Action == topology.ActionWait
			for _, action := range allowed {
				ok = ok || step.Action == action
			}
			if !ok {
				s.Errorf("under the verdict %s a step is taken: %s %s", verdict, step.Action, step.Message)
			}
		}
	}
	last := s.becomes(verdict)
	if last.Model.Reason == "" {
		s.Errorf("the verdict %s has no reason", verdict)
	}
	return last
}

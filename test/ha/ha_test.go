// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"d3os.com/d3os-operator/internal/manager"
)

// takeOver is a way to end or disconnect the leader, with the time limit for the next leader and the expected end of the old one.
type takeOver struct {
	name  string
	limit time.Duration // time until another replica must lead
	away  func(*replica)
	back  func(*replica) // called when another replica works; the old leader must then end
	clean bool           // the old leader ends without an error
}

// A standby takes over from a leader that is stopped, killed, cut off or paused. The two never write at the same time, and the result
// matches the spec.
func TestTakeOver(t *testing.T) {
	options, err := manager.ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	signal := func(which syscall.Signal) func(*replica) { return func(r *replica) { r.signal(which) } }
	nothing := func(*replica) {}
	for _, c := range []takeOver{
		{"stopped", 2 * time.Second, signal(syscall.SIGTERM), nothing, true},
		{"killed", options.LeaseDuration, signal(syscall.SIGKILL), nothing, false},
		{"cut-off", options.LeaseDuration, func(r *replica) { r.network.cut() }, func(r *replica) { r.network.heal() }, false},
		{"paused", options.LeaseDuration, signal(syscall.SIGSTOP), signal(syscall.SIGCONT), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, leader := newScene(t)
			for range runs {
				standby := s.start()
				s.lose(c, leader)
				leader = standby
			}
			s.judge(c.name)
		})
	}
}

// lose ends, cuts off or pauses the leader during writes, and waits until another replica works.
func (s *scene) lose(c takeOver, leader *replica) {
	s.Helper()
	quiet := s.disturb()
	defer quiet()
	s.until("the leader works", func() bool {
		_, works := s.story().worked("", time.Now().Add(-2*unrest))
		return works
	})
	at := time.Now()
	c.away(leader)
	if took := s.succeeded(leader, at); took > c.limit {
		s.Errorf("another replica led after %s, not within %s", took, c.limit)
	}
	c.back(leader)
	leader.end(c.clean)
	quiet()
	s.settle()
}

// The test replaces the operator repeatedly in the middle of rollouts.
func TestRollingRestart(t *testing.T) {
	s, old := newScene(t)
	quiet := s.disturb()
	defer quiet()
	for range 2 * runs {
		next := s.start()
		at := time.Now()
		old.signal(syscall.SIGTERM)
		old.end(true)
		s.succeeded(old, at)
		old = next
	}
	quiet()
	s.settle()
	s.judge("rolling")
}

// succeeded waits until another replica works. It returns the time from a given point in time until that replica led.
func (s *scene) succeeded(leader *replica, at time.Time) time.Duration {
	s.Helper()
	s.until("another one works", func() bool {
		_, works := s.story().worked(leader.name, at)
		return works
	})
	log := s.story()
	leads, _ := log.taken(leader.name, at)
	works, _ := log.worked(leader.name, at)
	s.leads, s.works = append(s.leads, leads.Sub(at)), append(s.works, works.Sub(at))
	return leads.Sub(at)
}

// judge logs the measurements, and fails the test if two replicas have written at the same time.
func (s *scene) judge(name string) {
	s.Helper()
	log := s.story()
	doubles := log.doubles()
	s.Logf("%s, %d times: another replica led after %s, and had written after %s (min / median / max); %d writes, %d double",
		name, len(s.leads), spread(s.leads), spread(s.works), len(log.writes), len(doubles))
	for i, w := range doubles {
		if i == 10 {
			s.Errorf("and %d more", len(doubles)-i)
			break
		}
		s.Errorf("%s, when %q held the lease", w, log.holder(w.received))
	}
}

func spread(values []time.Duration) string {
	slices.Sort(values)
	n := len(values)
	middle := (values[(n-1)/2] + values[n/2]) / 2
	return fmt.Sprintf("%.2f / %.2f / %.2f s", values[0].Seconds(), middle.Seconds(), values[n-1].Seconds())
}

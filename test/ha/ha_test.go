// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"syscall"
	"testing"
	"time"

	"d3os.com/d3os-operator/internal/manager"
)

// takeOver says how a leader is taken away, and what may come of it.
type takeOver struct {
	name  string
	limit time.Duration // until another one leads
	away  func(*scene, *replica)
	after func(*scene, *replica) // once another one works; the first must have ended then
}

// A standby takes over from a leader that is stopped, dies, is cut off or sleeps; the two never
// write at once, and what comes of it is what was declared.
func TestTakeOver(t *testing.T) {
	options, err := manager.ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []takeOver{
		{
			name: "stopped", limit: 2 * time.Second,
			away: func(_ *scene, r *replica) { r.signal(syscall.SIGTERM) },
			after: func(s *scene, r *replica) {
				if err := r.end(); err != nil {
					s.Errorf("%s was stopped and ended with %v", r.name, err)
				}
			},
		},
		{
			name: "killed", limit: options.LeaseDuration,
			away:  func(_ *scene, r *replica) { r.signal(syscall.SIGKILL) },
			after: func(_ *scene, r *replica) { _ = r.end() },
		},
		{
			name: "cut-off", limit: options.LeaseDuration,
			away: func(_ *scene, r *replica) { r.network.drop() },
			after: func(s *scene, r *replica) {
				r.network.heal()
				if r.end() == nil {
					s.Errorf("%s lost the lease and ended without an error", r.name)
				}
			},
		},
		{
			name: "paused", limit: options.LeaseDuration,
			away: func(_ *scene, r *replica) { r.signal(syscall.SIGSTOP) },
			after: func(s *scene, r *replica) {
				r.signal(syscall.SIGCONT)
				if r.end() == nil {
					s.Errorf("%s lost the lease and ended without an error", r.name)
				}
			},
		},
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

// lose takes the leader away while there is something to write, and waits until another one works.
func (s *scene) lose(c takeOver, leader *replica) {
	s.Helper()
	quiet := s.disturb()
	defer quiet()
	s.until("the leader works", func() bool {
		_, works := s.tell().worked("", time.Now().Add(-2*unrest))
		return works
	})
	at := time.Now()
	c.away(s, leader)
	s.until("another one works", func() bool {
		_, works := s.tell().worked(leader.name, at)
		return works
	})
	told := s.tell()
	leads, _ := told.taken(leader.name, at)
	works, _ := told.worked(leader.name, at)
	results.add(c.name, leads.Sub(at), works.Sub(at))
	if took := leads.Sub(at); took > c.limit {
		s.Errorf("another one led after %s, not within %s", took, c.limit)
	}
	c.after(s, leader)
	quiet()
	s.settle()
}

// The operator is replaced again and again in the middle of rollouts.
func TestRollingRestart(t *testing.T) {
	const name = "rolling"
	s, old := newScene(t)
	quiet := s.disturb()
	defer quiet()
	for range 2 * runs {
		next := s.start()
		at := time.Now()
		old.signal(syscall.SIGTERM)
		if err := old.end(); err != nil {
			t.Errorf("%s was stopped and ended with %v", old.name, err)
		}
		s.until("the next one works", func() bool {
			_, works := s.tell().worked(old.name, at)
			return works
		})
		told := s.tell()
		leads, _ := told.taken(old.name, at)
		works, _ := told.worked(old.name, at)
		results.add(name, leads.Sub(at), works.Sub(at))
		old = next
	}
	quiet()
	s.settle()
	s.judge(name)
}

// judge fails the test when two have written at once.
func (s *scene) judge(name string) {
	s.Helper()
	told := s.tell()
	doubles := told.doubles()
	results.judge(name, len(told.writes), len(doubles))
	for i, w := range doubles {
		if i == 10 {
			s.Errorf("and %d more", len(doubles)-i)
			break
		}
		s.Errorf("%s, when %q held the lease", w, told.holder(w.received))
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/redis/rig"
)

// queue writes jobs to one shard, and takes the older ones out again, so that the shard may be empty by right.
type queue struct {
	client *redis.ClusterClient
	tag    string

	mu      sync.Mutex
	keep    int // how many jobs stay
	next    int
	waiting []string        // acknowledged, and not taken out
	taken   map[string]bool // their removal was acknowledged
}

func (q *queue) work(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		q.mu.Lock()
		switch {
		case len(q.waiting) > q.keep:
			job := q.waiting[0]
			if err := q.client.Del(ctx, job).Err(); err == nil {
				q.taken[job] = true
				q.waiting = q.waiting[1:]
			}
		case q.keep > 0:
			q.next++
			job := fmt.Sprintf("{%s}-%d", q.tag, q.next)
			if err := q.client.Set(ctx, job, "x", 0).Err(); err == nil {
				q.waiting = append(q.waiting, job)
			}
		}
		q.mu.Unlock()
	}
}

// holds has the queue hold so many jobs, and waits until it does.
func (q *queue) holds(t *testing.T, jobs int) {
	t.Helper()
	q.mu.Lock()
	q.keep = jobs
	q.mu.Unlock()
	rig.Until(t, fmt.Sprintf("the queue holds %d jobs", jobs), func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.waiting) != jobs {
			return fmt.Errorf("it holds %d", len(q.waiting))
		}
		return nil
	})
}

// check holds what is there against what was acknowledged.
func (q *queue) check(s *scenario) {
	s.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, job := range q.waiting {
		if n, err := q.client.Exists(s.Context(), job).Result(); err != nil || n != 1 {
			s.Errorf("job %s is lost (%v)", job, err)
		}
	}
	for job := range q.taken {
		if n, err := q.client.Exists(s.Context(), job).Result(); err != nil || n != 0 {
			s.Errorf("job %s, which was taken out, is back (%v)", job, err)
		}
	}
}

// A writer loses no acknowledged write, and none that it deleted comes back, while in any order: a master's key space becomes
// empty and its replica restarts; a replica stays away and its master's pod is deleted; all pods come back with each other's
// addresses and one master comes last.
func TestNothingIsLostInAnyOrder(t *testing.T) {
	t.Parallel()
	away, runs := 15*time.Second, 1
	if testing.Short() {
		away = 5 * time.Second
	}
	if full {
		away, runs = 2*time.Minute, 6
	}
	for range runs {
		f, d, _ := formed(t, 2, 2, 2)
		s := &scenario{T: t, f: f, d: d}
		tag := s.keyOf(s.master(0))
		ledger := f.Keep(rig.LedgerOptions{Except: owned(t, s.master(0))})
		q := &queue{client: f.ClusterClient(), tag: tag, keep: 300, taken: map[string]bool{}}
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { q.work(ctx) })
		events := []func(){
			func() { s.emptied(q) },
			func() {
				replica, master := s.replica(1), s.master(1)
				replica.Stop()
				s.drive(away)
				master.Stop()
				replica.Begin()
				s.drive(away)
				master.Replace()
			},
			func() {
				late := s.master(2)
				s.exchange(late)
				s.drive(away)
				late.Replace()
			},
		}
		order := rand.Perm(len(events))
		t.Logf("faults in the order %v", order)
		for _, i := range order {
			events[i]()
			d.Settle(2*time.Minute, "it heals")
			rig.Until(t, "all is written to again", ledger.WrittenAll)
		}
		q.holds(t, 100)
		stop()
		done.Wait()
		q.check(s)
		ledger.Close().Nothing(t, fmt.Sprintf("faults in the order %v", order))
	}
}

// emptied has the master of shard 0 empty for a while, in which its replica restarts with keys of before, and gets no link.
func (s *scenario) emptied(q *queue) {
	s.Helper()
	q.holds(s.T, 300)
	s.inStep()
	replica := s.replica(0)
	replica.Kill()
	s.isMissed()
	q.holds(s.T, 0)
	master := s.master(0)
	user := "replica:data/rec-0"
	s.send(master, "ACL", "SETUSER", user, "off")
	replica.Begin()
	s.d.Until(time.Minute, "the replica is back with keys", func(topology.Decision) error {
		if n, err := replica.Client().DBSize(s.Context()).Result(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%d keys", n))
		}
		return nil
	})
	s.drive(8 * time.Second)
	if role, err := master.Role(s.Context()); err != nil || role != "master" {
		s.Errorf("the master that is empty by right is a %s (%v)", role, err)
	}
	s.send(master, "ACL", "SETUSER", user, "on")
	q.mu.Lock()
	q.keep = 300
	q.mu.Unlock()
}

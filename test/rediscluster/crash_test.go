// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// moves is after how many effects of a move of slots lives end, one after the other: a move takes some thousand. Of all
// else, each life takes one effect.
var moves = []int{1, 2, 40, 3, 75, 5, 1, 110}

// mortal makes each life of the operator end at its first effect: on Redis or at the API server, its status aside. One
// life ends when the effect was made and its answer is lost, the next one when half of its commands were sent, or none
// of one.
type mortal struct {
	skip  int // how many effects each life may take first; 0 in the full form
	lives int
	ends  map[string]int // where lives ended
}

// life is one process of the operator.
type life struct {
	*fault.Process

	mu    sync.Mutex
	skip  int
	moves int
	half  bool
	where string
}

func (m *mortal) next() *life {
	l := &life{Process: fault.New(), skip: m.skip, moves: moves[m.lives%len(moves)], half: m.lives%2 == 1}
	m.lives++
	l.Rule(&fault.Rule{When: l.ends, Do: fault.CrashOnEffect})
	return l
}

// ends reports whether the operator ends with a request to the API server.
func (l *life) ends(r harness.Request) bool {
	if !r.WritesObject() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip--; l.skip >= 0 {
		return false
	}
	l.where = r.Verb + " " + r.Resource
	return true
}

func effectOf(commands []string) string {
	i := slices.IndexFunc(commands, rig.HasEffect)
	if i < 0 {
		return ""
	}
	words := strings.Fields(commands[i])
	if strings.HasPrefix(commands[i], "CLUSTER SETSLOT") {
		return strings.Join([]string{"SETSLOT", words[3]}, " ")
	}
	return strings.Join(words[:min(2, len(words))], " ")
}

// Send ends a life before all of its commands were sent.
func (l *life) Send(_ topology.Place, commands []string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead() {
		return 0, server.ErrBrokenOff
	}
	effect := effectOf(commands)
	if effect == "" || !l.half || !l.due(commands) {
		return len(commands), nil
	}
	if l.where = "half of " + effect; len(commands) == 1 {
		l.where = "before " + effect
	}
	l.Crash()
	return len(commands) / 2, server.ErrBrokenOff
}

// Received ends a life before it learns what came of its commands.
func (l *life) Received(_ topology.Place, commands []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead() {
		return server.ErrBrokenOff
	}
	effect := effectOf(commands)
	if effect == "" || l.half || !l.due(commands) {
		return nil
	}
	l.where = "after " + effect
	l.Crash()
	return server.ErrBrokenOff
}

// due counts effects, and reports whether the life ends with this one.
func (l *life) due(commands []string) bool {
	if rig.IsMove(commands[slices.IndexFunc(commands, rig.HasEffect)]) {
		l.moves--
		return l.moves < 0
	}
	l.skip--
	return l.skip < 0
}

func (l *life) dead() bool {
	select {
	case <-l.Crashed():
		return true
	default:
		return false
	}
}

// live lets one operator after the other live until a condition holds that outlasts one of them.
func (m *mortal) live(s *scene, within time.Duration, holds func() error) {
	s.Helper()
	end := time.Now().Add(within)
	for time.Now().Before(end) {
		l := m.next()
		op := s.Start(func(config *rest.Config, options *manager.Options) {
			config.Wrap(l.Wrap)
			options.Redis.Tap = l
		})
		err := s.Within(time.Until(end), func() error {
			if l.dead() {
				return nil
			}
			return holds()
		})
		op.Stop()
		switch {
		case err != nil:
			s.Fatalf("after %d lives: %v", m.lives, err)
		case !l.dead():
			return
		}
		l.mu.Lock()
		m.ends[l.where]++
		l.mu.Unlock()
	}
	s.Fatalf("not within %s and %d lives; they ended at %v", within, m.lives, m.ends)
}

// standing leaves a cluster of six pods with data, and no operator.
func (s *scene) standing(spec string) {
	s.Helper()
	op := s.Start()
	s.create(spec)
	s.ready(6)
	s.write()
	op.Stop()
}

// An operator that is killed at every step brings every planned change about, and nobody who writes or reads meanwhile
// notices.
func TestKilledAtEveryStep(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing("{replicas: 6, repository: redis}")
	changes := []struct {
		name, spec string
		pods       int
	}{
		{"6 to 8 pods", "{replicas: 8}", 8},
		{"8 to 12 pods", "{replicas: 12}", 12},
		{"12 to 6 pods", "{replicas: 6}", 6},
		{"a rolling change", "{config: {io-threads: '2'}}", 6},
		{"a setting that changes at once", "{config: {io-threads: '2', maxmemory-policy: allkeys-lru}}", 6},
	}
	skip, within := 0, 30*time.Minute
	if !full {
		// Few slots, and each third step.
		changes[0].spec = "{replicas: 8, updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 48, fromReplicas: cache-0-0}]}}"
		changes, skip, within = changes[:1], 2, patience
	}
	everywhere := map[string]int{}
	for i, c := range changes {
		m := &mortal{skip: skip, ends: map[string]int{}}
		ledger := s.keep(fmt.Sprintf("ledger-%d", i))
		rolls, before := i > 0 && c.pods == 6 && strings.Contains(c.name, "rolling"), s.uids()
		s.change(c.spec)
		began := time.Now()
		m.live(s, within, func() error {
			if left := s.remain(before); rolls && left > 0 {
				return fmt.Errorf("%d pods are not replaced", left)
			}
			return s.isReady(c.pods)
		})
		s.Until("the nodes agree", func() error { return s.check(c.pods) })
		ledger.Close().Nothing(t, c.name)
		t.Logf("%s: %s, %d lives, which ended at %v", c.name, time.Since(began).Round(10*time.Millisecond), m.lives, m.ends)
		for where, n := range m.ends {
			everywhere[where] += n
		}
	}
	s.holds()
	where := strings.Join(slices.Sorted(maps.Keys(everywhere)), ", ")
	for _, effect := range []string{"SETSLOT IMPORTING", "SETSLOT MIGRATING", "SETSLOT NODE", "MIGRATE", "CLUSTER FAILOVER", "CLUSTER REPLICATE", "delete pods", "patch configmaps"} {
		if full && !strings.Contains(where, effect) {
			t.Errorf("no life ended at %s; they ended at %s", effect, where)
		}
	}
}

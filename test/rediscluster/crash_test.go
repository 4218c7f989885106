// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// moves lists the numbers of changes after which successive processes of the operator (lives, see mortal) end during a move of slots. A move
// makes some thousand changes. In all other actions, a life ends at its first change.
var moves = []int{1, 2, 40, 3, 75, 5, 1, 110}

// mortal ends each process of the operator (a life) at its first change. A change is a command that changes Redis, or a write to the API
// server other than a write of a status. Lives alternate: one ends after a change and does not get the result. The next ends when it has
// sent half of its commands, or before it sends a single command.
type mortal struct {
	stage.Lives

	within time.Duration // the time limit of a change
}

// mortals returns a mortal. In the full form, a life ends at each change, and long is the time limit of a change. In the short form, a life
// ends at every third change, and the time limit is patience.
func mortals(long time.Duration) *mortal {
	if full {
		return &mortal{within: long}
	}
	return &mortal{Lives: stage.Lives{Skip: 2}, within: patience}
}

// life is one process of the operator.
type life struct {
	*stage.Life

	mu    sync.Mutex
	moves int
	half  bool
}

func (m *mortal) next() *life {
	l := &life{moves: moves[m.Begun%len(moves)], half: m.Begun%2 == 1}
	l.Life = m.Next()
	// At the API server, a life ends at a request that changes an object.
	l.Rule(&fault.Rule{Do: fault.CrashOnEffect, When: func(r harness.Request) bool { return r.WritesObject() && l.Due(r.Verb+" "+r.Resource) }})
	return l
}

func effectOf(commands []string) string {
	i := slices.IndexFunc(commands, redistest.HasEffect)
	if i < 0 {
		return ""
	}
	words := strings.Fields(commands[i])
	if strings.HasPrefix(commands[i], "CLUSTER SETSLOT") {
		return strings.Join([]string{"SETSLOT", words[3]}, " ")
	}
	return strings.Join(words[:min(2, len(words))], " ")
}

// Send ends a life before it has sent all its commands.
func (l *life) Send(_ topology.Place, commands []string) (int, error) {
	if l.Dead() {
		return 0, server.ErrBrokenOff
	}
	effect, where := effectOf(commands), "half of "
	if len(commands) == 1 {
		where = "before "
	}
	if effect == "" || !l.half || !l.due(commands, where+effect) {
		return len(commands), nil
	}
	l.Crash()
	return len(commands) / 2, server.ErrBrokenOff
}

// Received ends a life before it gets the results of its commands.
func (l *life) Received(_ topology.Place, commands []string) error {
	if l.Dead() {
		return server.ErrBrokenOff
	}
	effect := effectOf(commands)
	if effect == "" || l.half || !l.due(commands, "after "+effect) {
		return nil
	}
	l.Crash()
	return server.ErrBrokenOff
}

// due counts changes, and reports whether the life ends at this change. Changes of moves are counted separately.
// Changes that allow nodes to replicate are counted like moves, because each life repeats these changes before it makes a
// node a replica.
func (l *life) due(commands []string, where string) bool {
	command := commands[slices.IndexFunc(commands, redistest.HasEffect)]
	if !redistest.IsMove(command) && !strings.HasPrefix(command, "ACL SETUSER") {
		return l.Due(where)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moves--
	return l.moves < 0 && l.End(where)
}

// live runs one operator after the other until a condition holds and the present operator has not crashed.
func (m *mortal) live(s *scene, holds func() error) {
	s.Helper()
	m.Live(s.Stage, m.within, func() (*stage.Life, *stage.Operator) {
		l := m.next()
		return l.Life, s.Start(func(config *rest.Config, options *manager.Options) { config.Wrap(l.Wrap); options.Redis.Tap = l })
	}, holds)
}

// bring makes a change, which successive lives carry out. During the change, writers and readers must not fail. If
// rolls is true, all pods must be replaced. bring returns the number of former pods that still exist.
func (m *mortal) bring(s *scene, what string, pods int, rolls bool, change func()) (left int) {
	s.Helper()
	before, ledger := s.uids(), s.keep(fmt.Sprintf("ledger-%d", m.Begun))
	change()
	m.live(s, func() error {
		if left := s.remain(before); rolls && left > 0 {
			return fmt.Errorf("%d pods are not replaced yet", left)
		}
		return s.isReady(pods)
	})
	s.agree(pods)
	ledger.Close().Nothing(s.T, what)
	return s.remain(before)
}

// owned returns the slots of each shard, as its master reports them.
func (s *scene) owned() map[int]topology.SlotSet {
	s.Helper()
	found := map[int]topology.SlotSet{}
	for _, pod := range s.pods() {
		c := s.node(pod)
		text, err := c.ClusterNodes(s.Ctx).Result()
		s.Must(errors.Join(err, c.Close()))
		entries, err := topology.ParseNodes(text)
		s.Must(err)
		var shard int
		_, err = fmt.Sscanf(pod.Name, name+"-%d-", &shard)
		s.Must(err)
		for _, e := range entries {
			if e.Myself {
				found[shard] = found[shard].Union(e.Owned)
			}
		}
	}
	return found
}

// An operator that is killed at every step completes every planned change, and no write or read fails.
func TestKilledAtEveryStep(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six).Stop()
	changes := []struct {
		name, spec string
		pods       int
		rolls      bool
	}{
		{"6 to 8 pods", "{replicas: 8}", 8, false},
		{"8 to 12 pods", "{replicas: 12}", 12, false},
		{"12 to 6 pods", "{replicas: 6}", 6, false},
		{"a rolling change", "{config: {io-threads: '2'}}", 6, true},
		{"a setting that needs no restart", "{config: {io-threads: '2', maxmemory-policy: allkeys-lru}}", 6, false},
	}
	if !full { // move only a few slots
		changes[0].spec = "{replicas: 8, updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 48, fromReplicas: cache-0-0}]}}"
		changes = changes[:1]
	}
	m, had := mortals(30*time.Minute), s.owned()
	for _, c := range changes {
		m.bring(s, c.name, c.pods, c.rolls, func() { s.change(c.spec) })
	}
	s.holds()
	if !full {
		// The new shard has as many slots as its change requests, and all come from the shard that the change names. No other slots have
		// moved.
		owned := s.owned()
		if owned[3].Len() != 48 || owned[3].Minus(had[0]).Len() != 0 || owned[1].String() != had[1].String() || owned[2].String() != had[2].String() {
			t.Errorf("the shards had %v, and have %v", had, owned)
		}
	}
	where := strings.Join(slices.Sorted(maps.Keys(m.Ends)), ", ")
	for _, effect := range []string{"SETSLOT IMPORTING", "SETSLOT MIGRATING", "SETSLOT NODE", "MIGRATE", "CLUSTER FAILOVER", "CLUSTER REPLICATE", "delete pods", "patch configmaps"} {
		if full && !strings.Contains(where, effect) {
			t.Errorf("no life ended at %s; they ended at %s", effect, where)
		}
	}
}

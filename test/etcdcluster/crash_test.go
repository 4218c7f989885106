// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

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

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

// mortal makes each life of the operator end at an effect, on etcd or at the API server, its status aside: one life before the
// effect, the next one when it was had and its answer is lost.
type mortal struct {
	skip  int // how many effects each life may have first; 0 in the full form
	lives int
	ends  map[string]int // where lives ended
}

// life is one process of the operator.
type life struct {
	*fault.Process
	watchdog *watchdog

	mu     sync.Mutex
	skip   int
	before bool
	where  string
}

var errEnded = errors.New("the operator has ended")

func (m *mortal) next(w *watchdog) *life {
	l := &life{Process: fault.New(), watchdog: w, skip: m.skip, before: m.lives%2 == 0}
	m.lives++
	end := fault.CrashLost
	if l.before {
		end = fault.CrashBefore
	}
	l.Rule(&fault.Rule{Do: end, When: func(r harness.Request) bool {
		return r.WritesObject() && l.due(r.Verb+" "+r.Resource)
	}})
	return l
}

// due counts effects, and reports whether the life ends with this one.
func (l *life) due(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip--; l.skip >= 0 {
		return false
	}
	if l.where = "after " + what; l.before {
		l.where = "before " + what
	}
	return true
}

// Before ends a life before an effect on etcd. Those on objects are ended at the API server.
func (l *life) Before(action membership.Action) error {
	switch {
	case l.dead():
		return errEnded
	case l.before && onEtcd[action] && l.due(string(action)):
		l.Crash()
		return errEnded
	}
	return l.watchdog.Before(action)
}

// After ends a life before it learns what came of an effect.
func (l *life) After(action membership.Action) error {
	err := l.watchdog.After(action)
	if !l.dead() && !l.before && onEtcd[action] && l.due(string(action)) {
		l.Crash()
		return errEnded
	}
	return err
}

// onEtcd are the effects that are none on objects.
var onEtcd = map[membership.Action]bool{
	membership.ActionAddLearner: true, membership.ActionPromote: true, membership.ActionRemove: true, membership.ActionMoveLeader: true,
	membership.ActionCompact: true, membership.ActionDefrag: true, membership.ActionDisarm: true, membership.ActionAppend: true,
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
		l := m.next(s.watchdog)
		op := s.start(func(config *rest.Config, options *manager.Options) {
			config.Wrap(l.Wrap)
			options.Etcd.Tap = l
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
			s.Fatalf("after %d lives, which ended at %v: %v", m.lives, m.ends, err)
		case !l.dead():
			return
		}
		l.mu.Lock()
		m.ends[l.where]++
		l.mu.Unlock()
	}
	s.Fatalf("not within %s and %d lives; they ended at %v", within, m.lives, m.ends)
}

// change is something that is made to happen, and what has to come of it.
type change struct {
	name string
	make func(s *scene) (done func() error)
}

// wants changes the spec, and is done when that is carried out.
func wants(spec string, voters int) func(*scene) func() error {
	return func(s *scene) func() error {
		s.watchdog.mu.Lock()
		s.watchdog.parked = voters == 0
		s.watchdog.mu.Unlock()
		s.change(spec)
		return func() error {
			if voters == 0 {
				return s.isParked()
			}
			return s.isReady(voters)
		}
	}
}

// loses makes the leader lose its volume, and is done when another member is in its place.
func (l loss) loses(s *scene) func() error {
	before := s.ids()
	leader, _ := s.leads()
	l.lose(s, leader)
	return func() error {
		if err := s.isAnother(leader, before); err != nil {
			return err
		}
		return s.isReady(3)
	}
}

// killed kills the leader, and is done when it is well.
func killed(s *scene) func() error {
	leader, _ := s.leads()
	s.crash(leader)
	return func() error { return errors.Join(s.isReady(3), s.check(3)) }
}

// rolls replaces all pods.
func rolls(s *scene) func() error {
	before := s.uids()
	s.change("{config: {snapshot-count: '5000'}}")
	return func() error { return errors.Join(s.replaced(before), s.isReady(3)) }
}

// upgrades brings etcd to the newest version there is.
func upgrades(s *scene) func() error {
	s.change("{version: " + rig.V36 + "}")
	return func() error {
		if at := s.get().Status.Version; at != rig.V36 {
			return fmt.Errorf("it runs %s", at)
		}
		return s.isReady(3)
	}
}

// An operator that is killed at every step forms a cluster, brings every planned change about and mends every fault, under load.
func TestKilledAtEveryStep(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	changes := []change{
		{"1 to 3 members", wants("{replicas: 3}", 3)}, {"3 to 5", wants("{replicas: 5}", 5)}, {"5 to 3", wants("{replicas: 3}", 3)},
		{"3.4 to 3.6", upgrades}, {"a rolling change", rolls}, {"the leader is killed", killed},
		{losses[0].name, losses[0].loses}, {losses[1].name, losses[1].loses}, {losses[2].name, losses[2].loses},
		{"3 to 1", wants("{replicas: 1}", 1)}, {"1 to 0", wants("{replicas: 0}", 0)}, {"0 to 3", wants("{replicas: 3}", 3)},
	}
	voters, skip, within, version := 3, 0, 20*time.Minute, rig.V34
	if !full {
		changes = []change{{"1 to 2 members", wants("{replicas: 2}", 2)}}
		voters, skip, within, version = 2, 2, patience, rig.V36 // each third step
	}
	everywhere := map[string]int{}
	begin := func(c change) {
		m := &mortal{skip: skip, ends: map[string]int{}}
		began, done := time.Now(), c.make(s)
		m.live(s, within, done)
		t.Logf("%s: %s, %d lives, which ended at %v", c.name, time.Since(began).Round(10*time.Millisecond), m.lives, m.ends)
		for where, n := range m.ends {
			everywhere[where] += n
		}
	}
	begin(change{"a cluster forms", func(s *scene) func() error {
		s.create(fmt.Sprintf("{replicas: 1, version: %s}", version))
		return func() error { return s.isReady(1) }
	}})
	cluster, load := s.get().Status.ClusterID, s.load()
	for _, c := range changes {
		begin(c)
	}
	load.End(t)
	if now := s.get().Status.ClusterID; now != cluster {
		t.Errorf("the cluster was %s and is %s", cluster, now)
	}
	s.Until("the members agree", func() error { return s.check(voters) })
	s.harmless()
	where := strings.Join(slices.Sorted(maps.Keys(everywhere)), ", ")
	for _, effect := range []string{"AddLearner", "Promote", "Remove", "MoveLeader", "delete pods", "delete persistentvolumeclaims", "patch pods", "patch configmaps", "patch persistentvolumeclaims"} {
		if full && (!strings.Contains(where, "before "+effect) || !strings.Contains(where, "after "+effect)) {
			t.Errorf("no life ended before and after %s; they ended at %s", effect, where)
		}
	}
}

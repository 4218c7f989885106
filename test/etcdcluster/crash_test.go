// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// mortal ends each process of the operator (a life) when it changes etcd, or an object of the API server other than a status. One life ends
// before it makes the change. The next life ends after the change, and does not get the result.
type mortal struct {
	stage.Lives

	within  time.Duration // the time limit of a change
	overlap time.Duration // the value of Options.Etcd.Overlap
}

// life is one process of the operator.
type life struct {
	*stage.Life

	watchdog *watchdog
	before   bool
}

var errEnded = errors.New("the operator has ended")

func (m *mortal) next(w *watchdog) *life {
	l := &life{watchdog: w, before: m.Begun%2 == 0}
	l.Life = m.Next()
	end := fault.CrashLost
	if l.before {
		end = fault.CrashBefore
	}
	l.Rule(&fault.Rule{Do: end, When: func(r harness.Request) bool { return r.WritesObject() && l.due(r.Verb+" "+r.Resource) }})
	return l
}

// due counts changes, and reports whether the life ends at the present change.
func (l *life) due(what string) bool {
	if l.before {
		return l.Due("before " + what)
	}
	return l.Due("after " + what)
}

// Before ends the life before a change of etcd. For a change of an object, the transport ends the life.
func (l *life) Before(action membership.Action) error {
	switch {
	case l.Dead():
		return errEnded
	case l.before && onEtcd[action] && l.due(string(action)):
		l.Crash()
		return errEnded
	}
	return l.watchdog.Before(action)
}

// After ends the life after a change of etcd, before it gets the result.
func (l *life) After(action membership.Action) error {
	err := l.watchdog.After(action)
	if !l.Dead() && !l.before && onEtcd[action] && l.due(string(action)) {
		l.Crash()
		return errEnded
	}
	return err
}

// onEtcd contains the actions that change etcd, and no Kubernetes object.
var onEtcd = map[membership.Action]bool{
	membership.ActionAddLearner: true, membership.ActionPromote: true, membership.ActionRemove: true, membership.ActionMoveLeader: true,
	membership.ActionCompact: true, membership.ActionDefrag: true, membership.ActionDisarm: true, membership.ActionAppend: true,
}

// live runs one operator after the other until a condition holds and the present operator has not crashed.
func (m *mortal) live(s *scene, holds func() error) {
	s.Helper()
	m.Live(s.Stage, m.within, func() (*stage.Life, *stage.Operator) {
		l := m.next(s.watchdog)
		return l.Life, s.start(func(config *rest.Config, options *manager.Options) {
			config.Wrap(l.Wrap)
			options.Etcd.Tap, options.Etcd.Overlap = l, m.overlap
		})
	}, holds)
}

// change is an event that the test causes, and its expected result.
type change struct {
	name string
	make func(s *scene) (done func() error)
}

// wants changes the spec. The change is done when the cluster has this number of voters.
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

// loses makes the leader lose its volume. The change is done when another member has replaced the leader.
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

// killed kills the leader. The change is done when all members are healthy.
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

// upgrades changes etcd to the newest version.
func upgrades(s *scene) func() error {
	s.change("{version: " + etcdtest.V36 + "}")
	return func() error {
		if at := s.get().Status.Version; at != etcdtest.V36 {
			return fmt.Errorf("it runs %s", at)
		}
		return s.isReady(3)
	}
}

// Under load, an operator that is killed at every step forms a cluster, completes every planned change and repairs every fault.
func TestKilledAtEveryStep(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	changes := []change{
		{"1 to 3 members", wants("{replicas: 3}", 3)}, {"3 to 5", wants("{replicas: 5}", 5)}, {"5 to 3", wants("{replicas: 3}", 3)},
		{"3.4 to 3.6", upgrades}, {"a rolling change", rolls}, {"the leader is killed", killed},
		{losses[0].name, losses[0].loses}, {losses[1].name, losses[1].loses}, {losses[2].name, losses[2].loses},
		{"3 to 1", wants("{replicas: 1}", 1)}, {"1 to 0", wants("{replicas: 0}", 0)}, {"0 to 3", wants("{replicas: 3}", 3)},
	}
	voters, version, m := 3, etcdtest.V34, &mortal{within: 20 * time.Minute}
	if !full {
		changes = []change{{"1 to 3 members", wants("{replicas: 3}", 3)}}
		voters, version, m = 3, etcdtest.V36, &mortal{within: patience, Lives: stage.Lives{Skip: 2}} // a life ends at its third change
	}
	s.create(fmt.Sprintf("{replicas: 1, version: %s}", version))
	m.live(s, func() error { return s.isReady(1) })
	cluster, load := s.get().Status.ClusterID, s.load()
	for _, c := range changes {
		t.Log(c.name)
		m.live(s, c.make(s))
	}
	load.End(t)
	s.isCluster(cluster)
	s.agree(voters)
	s.harmless()
	where := strings.Join(slices.Sorted(maps.Keys(m.Ends)), ", ")
	for _, effect := range []string{"AddLearner", "Promote", "Remove", "MoveLeader", "delete pods", "delete persistentvolumeclaims", "patch pods", "patch configmaps", "patch persistentvolumeclaims"} {
		if full && (!strings.Contains(where, "before "+effect) || !strings.Contains(where, "after "+effect)) {
			t.Errorf("no life ended before and after %s; they ended at %s", effect, where)
		}
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// life is one process of the operator. It ends when it changes a member, or an object of the API server other than a status. One life ends
// before it makes the change. The next life ends after the change, and does not get the result.
type life struct {
	*stage.Life

	before bool
}

var _ cluster.Tap = &life{}

var errEnded = errors.New("the operator has ended")

func next(all *stage.Lives) *life {
	l := &life{before: all.Begun%2 == 0}
	l.Life = all.Next()
	end := fault.CrashLost
	if l.before {
		end = fault.CrashBefore
	}
	l.Rule(&fault.Rule{Do: end, When: func(r harness.Request) bool { return r.WritesObject() && l.due(r.Verb+" "+r.Resource) }})
	return l
}

func (l *life) due(what string) bool {
	if l.before {
		return l.Due("before " + what)
	}
	return l.Due("after " + what)
}

// onMembers contains the actions that change a member, and no Kubernetes object.
var onMembers = []replication.Action{
	replication.ActionPromise, replication.ActionFollow, replication.ActionServe, replication.ActionDemote, replication.ActionHeartbeat,
}

// Before ends a life before it sends an order to a member.
func (l *life) Before(action replication.Action) error {
	if l.Dead() {
		return errEnded
	}
	if l.before && slices.Contains(onMembers, action) && l.due(string(action)) {
		l.Crash()
		return errEnded
	}
	return nil
}

// After ends a life after an order to a member, before it gets the result.
func (l *life) After(action replication.Action) error {
	if !l.Dead() && !l.before && slices.Contains(onMembers, action) && l.due(string(action)) {
		l.Crash()
		return errEnded
	}
	return nil
}

// An operator that is killed at each change forms a database, replaces a lost primary, and moves the primary, while a
// client writes.
func TestKilledAtEveryStep(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	lives := &stage.Lives{Skip: 1} // a life ends at its second change
	if full {
		lives.Skip = 0
	}
	live := func(holds func() error) { s.live(lives, holds) }
	s.create("replicas: 3")
	live(func() error { return s.isReady(3) })
	writer := s.write()
	primary := s.primary()
	node := s.pod(primary).Spec.NodeName
	s.Must(s.StopNode(s.Ctx, node))
	live(func() error {
		if s.primary() == primary {
			return fmt.Errorf("member %d is the primary, and its node has failed", primary)
		}
		return writer.writes()
	})
	s.Must(s.StartNode(s.Ctx, node))
	live(func() error { return s.isReady(3) })
	s.change(fmt.Sprintf("{replication: {primary: %d}}", primary))
	live(func() error {
		if is := s.primary(); is != primary {
			return fmt.Errorf("member %d is the primary", is)
		}
		return s.isReady(3)
	})
	writer.kept(3)
	where := strings.Join(slices.Sorted(maps.Keys(lives.Ends)), ", ")
	for _, effect := range []string{"Promise", "Follow", "Serve", "Demote", "patch pods", "patch configmaps"} {
		if full && (!strings.Contains(where, "before "+effect) || !strings.Contains(where, "after "+effect)) {
			t.Errorf("no life ended before and after %s; they ended at %s", effect, where)
		}
	}
}

// live runs operators one after the other, each of which ends at a change. It returns when a condition holds and the present operator has
// not ended.
func (s *scene) live(lives *stage.Lives, holds func() error) {
	s.Helper()
	lives.Live(s.Stage, 8*time.Minute, func() (*stage.Life, *stage.Operator) {
		l := next(lives)
		return l.Life, s.start(func(config *rest.Config, options *manager.Options) {
			config.Wrap(l.Wrap)
			options.MySQL.Tap = l
		})
	}, holds)
}

// writes returns an error if no write was acknowledged within the last second, or nil.
func (l *ledger) writes() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since := time.Since(l.last); since > time.Second {
		return fmt.Errorf("the last write was acknowledged %s ago", since)
	}
	return nil
}

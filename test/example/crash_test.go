// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build example

package example_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/example"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The operator crashes at each write that a Ledger causes, including writes to its members: before the write, after it, or after it but
// without the answer. The next operator reaches the same end state, and each step takes effect once and in order. The number of writes
// varies, so `make test` omits this test.
func TestCrash(t *testing.T) {
	harness.Long(t)
	base := newScene(t)
	op := base.start()
	base.live(op)
	all, end := fault.Points(op.Since(0, writes)), base.state()
	if len(end) == 0 {
		t.Fatal("nothing is there")
	}
	for _, name := range slices.Sorted(maps.Keys(stage.Crashes)) {
		for _, p := range all {
			t.Run(name+"/"+p.String(), func(t *testing.T) {
				s := newScene(t)
				op := s.start()
				rule := p.Rule(stage.Crashes[name])
				op.Rule(rule)
				s.live(op)
				// The numbers of status writes and of repeated writes differ between runs, so only the first of each write must happen.
				if op.Hits(rule) == 0 && p.Nth == 1 {
					t.Errorf("the write did not happen; these did: %v", op.Since(0, writes))
				}
				if diff := oracle.Diff(end, s.state()); diff != "" {
					t.Errorf("the state differs from a run without a crash (-want +got):\n%s", diff)
				}
				assert.DeepEqual(t, s.members.took(), []string{"create one-0", "copy one-1"})
			})
		}
	}
}

// live creates and changes a Ledger. When the operator crashes, the next operator continues.
func (s *scene) live(op *operator) {
	s.Helper()
	for pods, act := range []func(){
		func() { s.create(settings()) },
		func() { s.change("{replicas: 2, settings: null}") },
	} {
		act()
		s.Until("ready, or a crash", func() error {
			if stage.IsDead(op.Process) {
				return nil
			}
			return s.isReady()
		})
		if stage.IsDead(op.Process) {
			s.stop(op)
			op = s.start()
		}
		s.isWhole(pods + 1)
	}
	s.quiet(op)
}

// glance is the time without a write after which an operator counts as idle. An operator reacts within some 30 ms.
const glance = 400 * time.Millisecond

// quiet fails the test if an operator changes something within the time glance. An operator whose cache lags may delete a deleted object
// once more, which changes nothing.
func (s *scene) quiet(op *operator) {
	s.Helper()
	mark := op.Mark()
	s.Pass(glance)
	changes := func(sent harness.Sent) bool { return writes(sent) && sent.Code != http.StatusNotFound }
	if wrote := op.Since(mark, changes); len(wrote) > 0 {
		s.Errorf("the operator still writes: %v", wrote)
	}
}

// state returns the API server's objects in the namespace.
func (s *scene) state() oracle.State {
	s.Helper()
	kinds := append([]schema.GroupVersionKind{example.GroupVersion.WithKind("Ledger"), corev1.SchemeGroupVersion.WithKind("Pod")}, object.Kinds...)
	state, err := oracle.Read(s.Ctx, suite.API, s.Namespace, kinds...)
	s.Must(err)
	return state
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The operator crashes at every write of the life of a Notebook: before it is sent, after it took effect, and with its
// answer lost. The next one ends in the same state, and each step has taken effect in its order, and once.
func TestCrash(t *testing.T) {
	base := newScene(t)
	op := base.start()
	base.live(op)
	all, end := fault.Points(op.Since(0, writes)), base.state()
	if len(end) == 0 {
		t.Fatal("nothing is there")
	}
	for name, do := range map[string]fault.Action{"before": fault.CrashBefore, "after": fault.CrashAfter, "lost": fault.CrashLost} {
		for _, p := range all {
			t.Run(name+"/"+p.String(), func(t *testing.T) {
				s := newScene(t)
				op := s.start()
				rule := p.Rule(do)
				op.Rule(rule)
				s.live(op)
				// The status is written, and a refused write repeated, as often as the moment asks for.
				if op.Hits(rule) == 0 && p.Nth == 1 {
					t.Errorf("the write did not happen; these did: %v", op.Since(0, writes))
				}
				if diff := oracle.Diff(end, s.state()); diff != "" {
					t.Errorf("it is not as after a run without a crash (-want +got):\n%s", diff)
				}
				s.isOpen(book)
				s.inOrder(book)
			})
		}
	}
}

// live lets a Notebook be created and changed. When the operator crashes, the next one goes on.
func (s *scene) live(op *operator) {
	s.Helper()
	for _, act := range []func(){
		func() { s.create(book, pages()) },
		func() { s.change(book, "{title: two, pages: {a: null, b: null, c: C}}") },
	} {
		act()
		s.Until("ready, or a crash", func() error {
			if stage.IsDead(op.Process) {
				return nil
			}
			return s.isReady(book)
		})
		if stage.IsDead(op.Process) {
			s.stop(op)
			op = s.start()
		}
		s.ready(book)
	}
	s.quiet(op)
}

// state is what the API server has in the namespace.
func (s *scene) state() oracle.State {
	s.Helper()
	kinds := append([]schema.GroupVersionKind{groupVersion.WithKind("Notebook"), corev1.SchemeGroupVersion.WithKind("Pod")}, object.Kinds...)
	state, err := oracle.Read(s.Ctx, suite.API, s.Namespace, kinds...)
	s.Must(err)
	return state
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// glance is how long a case looks on when nothing may happen; reactions take some 30 ms.
	glance = 400 * time.Millisecond
	// stare is that for the run that all others are compared with.
	stare = 1500 * time.Millisecond
)

// patience is how long anything may take; failed requests are tried again ever less often. When
// many cases have failed, the rest need not take long.
func patience() time.Duration {
	if results.failures() > 4 {
		return 20 * time.Second
	}
	return time.Minute
}

// stage is a namespace of a case.
type stage struct {
	*testing.T
	ctx       context.Context
	namespace string
	name      string // of the DataService
	token     string // of the operators' account; empty for the administrator
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, ctx: context.WithoutCancel(t.Context())}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "chaos-"}}
	s.must(api.Create(s.ctx, namespace))
	s.namespace = namespace.Name
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operators' log:\n%s\nreplay: make chaos ARGS='-run %s' CHAOS=full", s.excerpt(), t.Name())
		}
		if !own { // else it goes with the cluster
			s.must(client.IgnoreNotFound(api.Delete(s.ctx, namespace)))
		}
	})
	return s
}

// excerpt is the end of the log about the namespace.
func (s *stage) excerpt() string {
	var lines []string
	for line := range strings.Lines(logs.String()) {
		if strings.Contains(line, s.namespace) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-12):], "")
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until waits until a condition holds; it returns what is missing, or nil.
func (s *stage) until(what string, holds func() error) {
	s.Helper()
	if err := s.within(patience(), holds); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *stage) within(limit time.Duration, holds func() error) error {
	// Now and then for conditions that look at requests.
	return harness.Within(limit, 100*time.Millisecond, func() <-chan struct{} { return sight.next(s.namespace) }, holds)
}

// state is the state of the namespace.
func (s *stage) state(history bool) oracle.State {
	state, err := sight.state(s.ctx, s.namespace, history)
	if err != nil {
		s.Error(err)
	}
	return state
}

// create creates the DataService.
func (s *stage) create(ds *unstructured.Unstructured) {
	s.Helper()
	ds = ds.DeepCopy()
	ds.SetNamespace(s.namespace)
	s.name = ds.GetName()
	s.must(api.Create(s.ctx, ds))
}

// change patches the DataService's spec.
func (s *stage) change(spec harness.Fields) {
	s.Helper()
	patch, err := json.Marshal(harness.Fields{"spec": spec})
	s.must(err)
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	s.must(api.Patch(s.ctx, ds, client.RawPatch(types.MergePatchType, patch)))
}

// isReady returns why the DataService is not ready in its latest generation, or nil.
func (s *stage) isReady() error {
	ds := &dsv1.DataService{}
	if err := api.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, ds); err != nil {
		return err
	}
	if ds.Status.ObservedGeneration != ds.Generation || ds.Status.Phase != dsv1.PhaseRunning ||
		!meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionReady) {
		return fmt.Errorf("generation %d, observed %d, phase %s: %s", ds.Generation, ds.Status.ObservedGeneration, ds.Status.Phase, ds.Status.Message)
	}
	return nil
}

// isGone returns what is left of the DataService, or nil.
func (s *stage) isGone() error {
	for id, object := range s.state(false) {
		if strings.HasPrefix(id, "DataService/") || strings.HasPrefix(id, "Pods/") {
			return fmt.Errorf("%s is still there", id)
		}
		if fields, ok := object.(map[string]any); ok && strings.Contains(fmt.Sprint(fields["owners"]), "gone:") {
			return fmt.Errorf("%s is still there", id)
		}
	}
	return nil
}

// operator is one that runs in this process, as a pod does: when it ends, it is started again.
type operator struct {
	*fault.Process
	cancel   context.CancelFunc
	stopped  chan struct{}
	restarts atomic.Int32
}

// start starts an operator for the namespace; it ends with the case, or when it crashes.
func (s *stage) start() *operator {
	s.Helper()
	return s.run(fault.New())
}

// run starts an operator as a process that something happens to.
func (s *stage) run(process *fault.Process) *operator {
	s.Helper()
	op := &operator{Process: process, stopped: make(chan struct{})}
	cfg := rest.CopyConfig(config)
	if s.token != "" {
		cfg = rest.AnonymousClientConfig(config)
		cfg.QPS, cfg.BearerToken = -1, s.token
	}
	cfg.Wrap(op.Wrap)
	ctx, cancel := context.WithCancel(s.ctx)
	op.cancel = cancel
	go func() {
		defer close(op.stopped)
		for ctx.Err() == nil {
			mgr, err := manager.New(ctx, cfg, harness.ManagerOptions(s.namespace))
			if err == nil {
				err = mgr.Start(ctx)
			}
			op.restarts.Add(1)
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(logs, "%s: the operator ended: %v\n", s.namespace, err)
			}
		}
	}()
	go func() {
		select {
		case <-op.Crashed():
			cancel()
		case <-ctx.Done():
		}
	}()
	s.Cleanup(func() { s.stop(op) })
	return op
}

// stop ends an operator and waits until it has ended.
func (s *stage) stop(op *operator) {
	s.Helper()
	op.Release()
	op.cancel()
	select {
	case <-op.stopped:
	case <-time.After(patience()):
		s.Error("the operator does not end")
	}
}

func writes(r fault.Request) bool  { return r.Writes() }
func objects(r fault.Request) bool { return r.WritesObject() }

// quiet returns whether an operator wrote nothing, and nothing changed, for a while.
func (s *stage) quiet(op *operator, while time.Duration, history bool) (oracle.State, error) {
	mark, before := op.Mark(), s.state(history)
	var err error
	_ = s.within(while, func() error {
		if wrote := op.Since(mark, writes); len(wrote) > 0 {
			err = fmt.Errorf("it goes on writing: %v", wrote)
			return nil
		}
		return errors.New("quiet so far")
	})
	if err != nil {
		return nil, err
	}
	after := s.state(history)
	if diff := oracle.Diff(before, after); diff != "" {
		return nil, fmt.Errorf("it goes on changing:\n%s", diff)
	}
	return after, nil
}

// ends is the oracle: the namespace gets into the state that is wanted, and stays in it without
// a further write.
func (s *stage) ends(op *operator, want oracle.State, history bool) error {
	deadline := time.Now().Add(patience())
	for {
		err := s.within(time.Until(deadline), func() error {
			if diff := oracle.Diff(want, s.state(history)); diff != "" {
				return fmt.Errorf("it is not as after a run without faults (-want +got):\n%s", diff)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if _, err = s.quiet(op, glance, history); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

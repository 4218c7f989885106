// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

// Package chaos_test makes the operator crash at every write, and makes its requests and watches fail. It compares the end states with the
// end state of a run without faults. `make suite-chaos` runs it.
package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	// glance is the time without a write after which an operator counts as idle. A later write fails no test: every check repeats until the
	// time limit.
	glance = 400 * time.Millisecond
	// stare is the longer idle time of the baseline run, with which all other runs are compared.
	stare = 1500 * time.Millisecond
)

// patience limits each wait. A wait exceeds it only in a hang. After many failed cases, the limit is shorter.
func patience() time.Duration {
	if results.sum().failed > 4 {
		return 20 * time.Second
	}
	return 3 * time.Minute
}

// scene is the namespace of a test case.
type scene struct {
	*stage.Stage

	past  past
	name  string // name of the DataService
	token string // token of the operators' account; empty for the administrator
}

func newStage(t *testing.T) *scene {
	t.Helper()
	s := &scene{Stage: suite.New(t), past: past{lives: map[string]map[types.UID]bool{}, secrets: map[string]*unstructured.Unstructured{}}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: make suite-chaos FORM=long ARGS='-run ^%s$'", strings.ReplaceAll(t.Name(), "/", "$/^"))
		}
	})
	return s
}

// create creates the DataService.
func (s *scene) create(ds *unstructured.Unstructured) {
	s.Helper()
	s.name = s.Create(ds)
}

// change patches the DataService's spec.
func (s *scene) change(spec harness.Fields) {
	s.Helper()
	s.Change(s.name, spec)
}

// isReady returns the reason why the DataService is not ready in its latest generation, or nil.
func (s *scene) isReady() error {
	ds := &dsv1.DataService{}
	if err := api.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.name}, ds); err != nil {
		return err
	}
	return harness.IsReady(ds, ds.Generation)
}

// isHibernated returns the reason why the DataService is not hibernated in its latest generation, or nil.
func (s *scene) isHibernated() error {
	ds := &dsv1.DataService{}
	if err := api.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.name}, ds); err != nil {
		return err
	}
	return stage.Unless(ds.Status.ObservedGeneration == ds.Generation && ds.Status.Phase == dsv1.PhaseHibernated, "it is "+string(ds.Status.Phase)+": "+ds.Status.Message)
}

// isGone returns an error that names a remaining object of the DataService, or nil.
func (s *scene) isGone() error {
	for id, object := range s.state(false) {
		if strings.HasPrefix(id, "DataService/") || strings.HasPrefix(id, "Pods/") {
			return fmt.Errorf("%s still exists", id)
		}
		if fields, ok := object.(map[string]any); ok && strings.Contains(fmt.Sprint(fields["owners"]), "gone:") {
			return fmt.Errorf("%s still exists", id)
		}
	}
	return nil
}

// operator is an operator in this process that behaves like a pod: when the operator ends, a new one starts.
type operator struct {
	*fault.Process
	cancel  context.CancelFunc
	stopped chan struct{}
}

// start starts an operator for the namespace. The operator ends with the case, or at a crash.
func (s *scene) start() *operator {
	s.Helper()
	return s.run(fault.New())
}

// run starts an operator that sends its requests through process, which can inject faults.
func (s *scene) run(process *fault.Process) *operator {
	s.Helper()
	op := &operator{Process: process, stopped: make(chan struct{})}
	cfg := rest.CopyConfig(config)
	if s.token != "" {
		cfg = rest.AnonymousClientConfig(config)
		cfg.QPS, cfg.BearerToken = -1, s.token
	}
	cfg.Wrap(op.Wrap)
	options := harness.ManagerOptions(s.Namespace)
	options.RetryRefused = 10 * time.Second // the default interval exceeds the time limit of the tests
	ctx, cancel := context.WithCancel(s.Ctx)
	op.cancel = cancel
	go func() {
		defer close(op.stopped)
		for ctx.Err() == nil {
			running, err := harness.Start(ctx, cfg, options)
			if err == nil {
				err = running.Wait()
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(&suite.Logs, "%s: the operator ended: %v\n", s.Namespace, err)
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

// stop ends an operator and waits for its end.
func (s *scene) stop(op *operator) {
	s.Helper()
	op.Release()
	op.cancel()
	select {
	case <-op.stopped:
	case <-time.After(patience()):
		s.Error("the operator did not end")
	}
}

func writes(r harness.Sent) bool  { return r.Writes() }
func objects(r harness.Sent) bool { return r.WritesObject() }

// quiet returns the state if, for a while, the operator wrote nothing and no object changed.
func (s *scene) quiet(op *operator, while time.Duration, history bool) (oracle.State, error) {
	mark, before := op.Mark(), s.state(history)
	var err error
	_ = s.Within(while, func() error {
		if wrote := op.Since(mark, writes); len(wrote) > 0 {
			err = fmt.Errorf("the operator still writes: %v", wrote)
			return nil
		}
		return errors.New("quiet so far")
	})
	if err != nil {
		return nil, err
	}
	after := s.state(history)
	if diff := oracle.Diff(before, after); diff != "" {
		return nil, fmt.Errorf("the state is still changing:\n%s", diff)
	}
	return after, nil
}

// ends waits until the namespace reaches the wanted state and the operator then writes nothing. It returns an error if that does not
// happen within the time limit.
func (s *scene) ends(op *operator, want oracle.State, history bool) error {
	deadline := time.Now().Add(patience())
	for {
		err := s.Within(time.Until(deadline), func() error {
			if diff := oracle.Diff(want, s.state(history)); diff != "" {
				return fmt.Errorf("the state differs from a run without faults (-want +got):\n%s", diff)
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

// leastCrashes is the minimum number of crashes in the suite.
const leastCrashes = 120

// The state that all cases share.
var (
	suite   = &stage.Suite{Patience: patience, Lists: lists()}
	config  *rest.Config
	api     client.WithWatch // has the rights of the cluster's administrator
	results = &table{lines: map[string]*line{}}

	full = os.Getenv("CHAOS") == "full"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var start time.Time
	code := suite.Main(m, cluster.Options{Name: "chaos", Nodes: 20}, func(context.Context) error {
		config, api, start = suite.Config, suite.API, time.Now()
		return nil
	})
	fmt.Print(results)
	fmt.Printf("%s; SEED=%d make suite-chaos replays the choice\n", time.Since(start).Round(time.Second), seed)
	if n := results.sum().crashes; code == 0 && !harness.Given("test.run") && !harness.Given("test.skip") && n < leastCrashes {
		fmt.Printf("%d crashes, at least %d are expected\n", n, leastCrashes)
		return 1
	}
	return code
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// Stage is a namespace with functions for the actions and observations of a test.
type Stage struct {
	*testing.T
	*harness.Journal

	Suite     *Suite
	Ctx       context.Context // stays valid during the clean-up of the test
	Namespace string
}

// New creates a namespace for a test.
func (s *Suite) New(t *testing.T) *Stage {
	t.Helper()
	st := &Stage{T: t, Suite: s, Ctx: context.WithoutCancel(t.Context())}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "stage-"}}
	st.Must(s.API.Create(st.Ctx, namespace))
	st.Namespace = namespace.Name
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operators' log:\n%s", st.excerpt())
		}
		if !s.Own {
			st.Must(client.IgnoreNotFound(s.API.Delete(st.Ctx, namespace)))
			return
		}
		// The namespace stays until the cluster ends. Only its Services are deleted now, because their addresses are scarce.
		st.Must(s.API.DeleteAllOf(st.Ctx, &corev1.Service{}, client.InNamespace(namespace.Name)))
	})
	var err error
	st.Journal, err = harness.NewJournal(st.Ctx, s.API, namespace.Name, s.Lists...)
	st.Must(err)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// excerpt returns the last lines of the operators' log that mention the namespace.
func (s *Stage) excerpt() string {
	var lines []string
	for line := range strings.Lines(s.Suite.Logs.String()) {
		if strings.Contains(line, s.Namespace) && !strings.Contains(line, "Event occurred") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-15):], "")
}

// Must fails the test on an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Until waits until holds returns nil. The error of holds names the missing state. When Until returns, the journal is
// at least as new as the state that holds has read.
func (s *Stage) Until(what string, holds func() error) {
	s.Helper()
	s.Try(what, holds)
	s.CatchUp()
}

// Try repeats an action until it succeeds. Tests that act hundreds of times use Try, because Until sends a request to the API server for
// each kind of the journal.
func (s *Stage) Try(what string, do func() error) {
	s.Helper()
	if err := s.Within(s.Suite.Patience(), do); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// CatchUp waits until the journal contains every change that the API server has made. Each kind has a separate watch: a DataService may be
// reported ready before the watch of Services has delivered the operator's write.
func (s *Stage) CatchUp() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, s.Suite.Patience())
	defer cancel()
	s.Must(s.Journal.CatchUp(ctx))
}

// Within waits until holds returns nil. When the time is up, it returns the last error of holds.
func (s *Stage) Within(limit time.Duration, holds func() error) error {
	// The interval is for conditions about states that the journal does not contain.
	return harness.Within(limit, 50*time.Millisecond, s.Next, holds)
}

// Create creates a DataService and returns its name.
func (s *Stage) Create(ds *unstructured.Unstructured) string {
	s.Helper()
	ds = ds.DeepCopy()
	ds.SetNamespace(s.Namespace)
	s.Must(s.Suite.API.Create(s.Ctx, ds))
	return ds.GetName()
}

// CreateReady creates a DataService and waits until it is ready.
func (s *Stage) CreateReady(ds *unstructured.Unstructured) string {
	s.Helper()
	name := s.Create(ds)
	s.Ready(name)
	return name
}

// Change patches the spec of a DataService (JSON merge patch) and returns its new generation.
func (s *Stage) Change(name string, spec harness.Fields) int64 {
	s.Helper()
	patch, err := json.Marshal(harness.Fields{"spec": spec})
	s.Must(err)
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	s.Must(s.Suite.API.Patch(s.Ctx, ds, client.RawPatch(types.MergePatchType, patch)))
	return ds.Generation
}

// ChangeReady patches the spec of a DataService and waits until it is ready in the new generation.
func (s *Stage) ChangeReady(name string, spec harness.Fields) {
	s.Helper()
	generation := s.Change(name, spec)
	s.Until("ready after the change", func() error { return s.IsReady(name, generation) })
}

// Ready waits until a DataService is ready in its latest generation.
func (s *Stage) Ready(name string) {
	s.Helper()
	ds := &dsv1.DataService{}
	s.Must(s.Suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, ds))
	s.Until("ready", func() error { return s.IsReady(name, ds.Generation) })
}

// IsReady returns the reason why a DataService is not ready in a generation, or nil.
func (s *Stage) IsReady(name string, generation int64) error {
	return harness.IsReady(s.DataService(name), generation)
}

// DataService returns the last seen version of a DataService, or nil.
func (s *Stage) DataService(name string) *dsv1.DataService {
	return harness.Lookup[*dsv1.DataService](s.Journal, name)
}

// Operator is an operator that runs for a stage.
type Operator struct {
	*harness.Operator
	*harness.Record

	stage *Stage
}

// Start runs an operator for the namespace until the test ends, and waits until it is active.
func (s *Stage) Start(settings ...func(*rest.Config, *manager.Options)) *Operator {
	s.Helper()
	op := s.Launch(settings...)
	s.Must(op.Active(s.Suite.Patience()))
	return op
}

// Launch starts an operator and does not wait until it is active.
func (s *Stage) Launch(settings ...func(*rest.Config, *manager.Options)) *Operator {
	s.Helper()
	config, options := rest.CopyConfig(s.Suite.Config), harness.ManagerOptions(s.Namespace)
	for _, set := range settings {
		set(config, &options)
	}
	op := &Operator{Record: &harness.Record{}, stage: s}
	config.Wrap(op.Before)
	var err error
	op.Operator, err = harness.Start(s.Ctx, config, options)
	s.Must(err)
	s.Cleanup(op.Stop)
	return op
}

// Stop ends the operator and waits until it has ended.
func (op *Operator) Stop() {
	op.stage.Helper()
	if err := op.Operator.Stop(op.stage.Suite.Patience()); err != nil {
		op.stage.Error(err)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// glance is how long a test looks on when nothing may happen; reactions take some 30 ms.
const glance = 400 * time.Millisecond

// scene is a namespace of a test.
type scene struct{ *stage.Stage }

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return &scene{suite.New(t)}
}

// operator is one that runs for a scene, and to which something may happen.
type operator struct {
	*harness.Operator
	*fault.Process
}

// start starts an operator that carries out Notebooks, and waits until it is active.
func (s *scene) start(before ...func(*manager.Operator) error) *operator {
	s.Helper()
	return s.run(fault.New(), append(before, func(op *manager.Operator) error { return register(op, groupVersion) })...)
}

// run starts an operator as a process that something happens to.
func (s *scene) run(process *fault.Process, register ...func(*manager.Operator) error) *operator {
	s.Helper()
	config := rest.CopyConfig(suite.Config)
	config.Wrap(process.Wrap)
	running, err := harness.Start(s.Ctx, config, harness.ManagerOptions(s.Namespace), register...)
	s.Must(err)
	op := &operator{Operator: running, Process: process}
	s.Cleanup(func() { s.stop(op) })
	s.Must(op.Active(patience))
	return op
}

// stop ends an operator, crashed or not, and waits until it has ended.
func (s *scene) stop(op *operator) {
	s.Helper()
	if err := op.Stop(patience); err != nil {
		s.Error(err)
	}
}

func writes(r harness.Sent) bool  { return r.Writes() }
func objects(r harness.Sent) bool { return r.WritesObject() }

// create creates a Notebook.
func (s *scene) create(name string, spec NotebookSpec) *Notebook {
	s.Helper()
	n := &Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: spec}
	s.Must(suite.API.Create(s.Ctx, n))
	return n
}

// change patches the spec of a Notebook (JSON merge patch).
func (s *scene) change(name string, spec harness.Fields) {
	s.Helper()
	patch, err := json.Marshal(harness.Fields{"spec": spec})
	s.Must(err)
	n := &Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	s.Must(suite.API.Patch(s.Ctx, n, client.RawPatch(types.MergePatchType, patch)))
}

// isReady returns why a Notebook is not ready in its latest generation, or nil.
func (s *scene) isReady(name string) error {
	n := &Notebook{}
	if err := suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, n); err != nil {
		return err
	}
	if n.Status.ObservedGeneration != n.Generation || n.Status.Phase != phaseReady {
		return fmt.Errorf("generation %d, status %+v", n.Generation, n.Status)
	}
	return nil
}

func (s *scene) ready(name string) {
	s.Helper()
	s.Until("ready", func() error { return s.isReady(name) })
}

// hasReason waits until the condition Ready has a reason.
func (s *scene) hasReason(name, reason string) {
	s.Helper()
	s.Until("reason "+reason, func() error {
		n := harness.Lookup[*Notebook](s.Journal, name)
		if n == nil {
			return errors.New("the Notebook is not there")
		}
		if c := meta.FindStatusCondition(n.Status.Conditions, "Ready"); c == nil || c.Reason != reason {
			return fmt.Errorf("status %+v", n.Status)
		}
		return nil
	})
}

// quiet fails the test if an operator writes something while it looks on.
func (s *scene) quiet(op *operator) {
	s.Helper()
	mark := op.Mark()
	_ = s.Within(glance, func() error { return errors.New("quiet so far") })
	if wrote := op.Since(mark, writes); len(wrote) > 0 {
		s.Errorf("it goes on writing: %v", wrote)
	}
}

// claim is the volume claim of a Notebook as last seen, or nil.
func (s *scene) claim(name string) *corev1.PersistentVolumeClaim {
	return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "data-"+name+"-0")
}

// isOpen fails the test unless the effect of each step is there.
func (s *scene) isOpen(name string) {
	s.Helper()
	claim, title := s.claim(name), harness.Lookup[*corev1.ConfigMap](s.Journal, name)
	if claim == nil || title == nil {
		s.Fatalf("the claim is %v, the ConfigMap is %v", claim, title)
	}
	if claim.Annotations[markFormatted] != "true" || title.Annotations[markOpen] != string(claim.UID) {
		s.Errorf("the claim %s has %v, the ConfigMap has %v", claim.UID, claim.Annotations, title.Annotations)
	}
}

// inOrder fails the test unless the steps of a Notebook took effect in their order, and each once.
func (s *scene) inOrder(name string) {
	s.Helper()
	effects := map[string]string{"PersistentVolumeClaim/data-" + name + "-0": markFormatted, "ConfigMap/" + name: markOpen}
	last, order := map[string]string{}, []string{}
	for _, c := range s.Since(0) {
		key := effects[c.ID]
		if value := c.Object.GetAnnotations()[key]; key != "" && value != last[key] {
			last[key] = value
			order = append(order, key)
		}
	}
	// Each kind has a watch of its own; resource versions tell the order across them.
	claim, title := s.first("PersistentVolumeClaim/data-"+name+"-0", markFormatted), s.first("ConfigMap/"+name, markOpen)
	slices.Sort(order)
	if !slices.Equal(order, []string{markFormatted, markOpen}) || claim >= title {
		s.Errorf("effects %v, formatted at version %d, opened at %d", order, claim, title)
	}
}

// first is the resource version at which an object first had an annotation.
func (s *scene) first(id, annotation string) int {
	s.Helper()
	found := s.First(0, id, func(c harness.Change) bool { return c.Object.GetAnnotations()[annotation] != "" })
	if found == nil {
		s.Fatalf("%s never had %s", id, annotation)
	}
	version := 0
	_, err := fmt.Sscan(found.Object.GetResourceVersion(), &version)
	s.Must(err)
	return version
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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

// change patches the spec of a Notebook (JSON merge patch in YAML).
func (s *scene) change(name, spec string) {
	s.Helper()
	s.Patch(&Notebook{ObjectMeta: metav1.ObjectMeta{Name: name}}, spec)
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

// quiet fails the test if an operator changes something while it looks on. A cache that lags makes it delete once more what
// is gone; the API server answers 404, and nothing has changed.
func (s *scene) quiet(op *operator) {
	s.Helper()
	mark := op.Mark()
	s.Pass(glance)
	changes := func(sent harness.Sent) bool { return writes(sent) && sent.Code != http.StatusNotFound }
	if wrote := op.Since(mark, changes); len(wrote) > 0 {
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
	marks := map[string]string{"PersistentVolumeClaim/data-" + name + "-0": markFormatted, "ConfigMap/" + name: markOpen}
	last := map[string]string{}
	var effects []client.Object
	for _, c := range s.Since(0) {
		if value := c.Object.GetAnnotations()[marks[c.ID]]; value != last[c.ID] {
			last[c.ID] = value
			effects = append(effects, c.Object)
		}
	}
	// Each kind has a watch of its own; resource versions tell the order across them.
	slices.SortFunc(effects, func(a, b client.Object) int {
		order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
		s.Must(err)
		return order
	})
	if took := harness.IDs(effects); !slices.Equal(took, []string{"PersistentVolumeClaim/data-" + name + "-0", "ConfigMap/" + name}) {
		s.Errorf("the steps took effect in %v", took)
	}
}

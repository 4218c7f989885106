// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build example

package example_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/example"
	"d3os.com/d3os-operator/test/harness"
)

// one is the name of a Ledger, and of a DataService in the same namespace.
const one = "one"

func settings() example.LedgerSpec {
	return example.LedgerSpec{Replicas: 1, Settings: map[string]string{"a": "A"}}
}

// A change of the spec writes the affected objects, and the status once. Each pod gets the data once.
func TestUpdate(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(settings())
	s.isWhole(1)
	s.written(op, 0, "ConfigMap/one-record", "ConfigMap/one-settings", "Secret/one-password", "Service/one", "StatefulSet/one")
	for _, spec := range []string{"{settings: {a: again}}", "{settings: null}"} {
		mark := op.Mark()
		s.change(spec)
		s.isWhole(1)
		s.written(op, mark, "ConfigMap/one-settings")
		if status := op.Since(mark, func(r harness.Sent) bool { return r.WritesStatus() }); len(status) != 1 {
			s.Errorf("the status was written %d times: %v", len(status), status)
		}
	}
	if s.Object("ConfigMap/one-settings") != nil {
		s.Error("settings that are not in the spec any more are still there")
	}
	s.change("{replicas: 3}")
	s.isWhole(3)
	s.passes(op)
	assert.DeepEqual(t, s.members.took(), []string{"create one-0", "copy one-1", "copy one-2"})
}

// record returns the ConfigMap with the record.
func (s *scene) record() *corev1.ConfigMap {
	return harness.Lookup[*corev1.ConfigMap](s.Journal, one+"-record").DeepCopy()
}

// edit patches the ConfigMap with the record, as another writer would.
func (s *scene) edit(patch string) {
	s.Must(suite.API.Patch(s.Ctx, s.record(), client.RawPatch(types.MergePatchType, []byte(patch))))
	s.CatchUp() // otherwise the journal shows the former objects
}

const withoutRecord = `{"metadata": {"annotations": {"` + annotationRecord + `": null}}}`

// Changes by another writer are reverted. A lost record is written again from the data of the pods, unless the Ledger is paused.
func TestDriftAndPause(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(example.LedgerSpec{Replicas: 1, Settings: map[string]string{"password": "A"}})
	s.hasReason(reconcile.ReasonInvalidSpec)
	s.change("{settings: null, paused: true}")
	s.hasReason("Paused")
	s.written(op, 0)
	s.change("{paused: false}")
	s.isWhole(1)
	for _, patch := range []string{`{"data": {"about": "theirs", "more": "theirs"}}`, withoutRecord} {
		s.edit(patch)
		s.Until("put back", func() error {
			if live := s.record(); len(live.Data) != 1 || live.Data["about"] == "theirs" || live.Annotations[annotationRecord] == "" {
				return fmt.Errorf("it has %v, %v", live.Data, live.Annotations)
			}
			return nil
		})
	}
	s.change("{paused: true}")
	s.hasReason("Paused")
	mark := op.Mark()
	s.edit(withoutRecord)
	s.passes(op)
	s.written(op, mark)
	s.change("{paused: false}")
	s.isWhole(1)
}

// A deleted Ledger leaves its volume, its Secret and its record. The deletion does not change a DataService with the same name. A new
// Ledger with that name finds the data.
func TestDelete(t *testing.T) {
	s := newScene(t)
	op := s.start()
	twin := harness.Small()
	twin.SetName(one)
	s.CreateReady(twin)
	theirs := s.owned(s.DataService(one))
	s.create(settings())
	s.isWhole(1)
	data, mark := s.members.on("data-one-0"), op.Mark()
	s.remove()
	s.create(settings())
	s.isWhole(1)
	s.written(op, mark, "ConfigMap/one-settings", "Service/one", "StatefulSet/one")
	s.stop(op)
	s.remove()
	op = s.start()
	generation := s.Change(one, harness.Fields{"rollout": harness.Fields{"order": "Sequential"}})
	s.Until("the operator has passed over what is there", func() error { return harness.Observed(s.DataService(one), generation) })
	s.written(op, 0)
	assert.Equal(t, s.members.on("data-one-0"), data)
	assert.DeepEqual(t, s.owned(s.DataService(one)), theirs)
}

// owned returns the objects that a resource controls.
func (s *scene) owned(owner client.Object) []string {
	var found []client.Object
	for _, o := range s.All() {
		if metav1.IsControlledBy(o, owner) {
			found = append(found, o)
		}
	}
	return harness.IDs(found)
}

// remove deletes the Ledger and waits until nothing that it controlled is left.
func (s *scene) remove() {
	s.Helper()
	l := harness.Lookup[*example.Ledger](s.Journal, one).DeepCopyObject().(*example.Ledger)
	s.Must(suite.API.Delete(s.Ctx, l))
	s.Until("everything owned goes", func() error {
		if left := s.owned(l); len(left) > 0 || s.Object("Ledger/"+one) != nil || s.Object("Pod/one-0") != nil {
			return fmt.Errorf("%v and the pod or the Ledger are still there", left)
		}
		return nil
	})
}

// A Ledger whose volumes are lost gets no new data, and a Ledger whose password is lost gets no new password: a user must act.
func TestLoss(t *testing.T) {
	s := newScene(t)
	op := s.start()
	s.create(settings())
	s.isWhole(1)
	s.members.lose()
	s.hasReason(string(example.DataLost))
	s.passes(op)
	assert.DeepEqual(t, s.members.took(), []string{"create one-0"})
	s.stop(op)
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*corev1.Secret](s.Journal, one+"-password").DeepCopy()))
	s.start()
	s.hasReason(reconcile.ReasonCredentialsFailed)
}

// A kind whose CRD is absent waits for the CRD: the operator repeats the discovery from time to time, watches nothing, and reports no
// failure. Once the CRD is installed, the same process reconciles the resources.
func TestAbsentCRD(t *testing.T) {
	s := newScene(t)
	absent := schema.GroupVersion{Group: s.Namespace + ".d3os-product.com.d3os", Version: "v1alpha1"} // no other test uses this API group
	op := s.run(absent)
	asks := func(r harness.Sent) bool { return strings.HasPrefix(r.Resource, "/apis") }
	first := len(op.Since(0, asks))
	s.Until("discovery is requested again and again", func() error {
		if asked := len(op.Since(0, asks)) - first; asked < 2 {
			return fmt.Errorf("%d requests for discovery", asked)
		}
		return nil
	})
	wrong := func(r harness.Sent) bool {
		return r.Group == absent.Group || !asks(r) && r.Code >= http.StatusBadRequest
	}
	if sent := op.Since(0, wrong); len(sent) > 0 || len(op.Since(0, asks))-first > 200 { // a loop without a pause sends thousands
		t.Errorf("without the CRD: %v, and %d requests for discovery", sent, len(op.Since(0, asks))-first)
	}
	s.Must(install(s.Ctx, absent))
	s.Cleanup(func() {
		crd := object.Empty(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		crd.SetName("ledgers." + absent.Group)
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, crd)))
	})
	l := &unstructured.Unstructured{Object: harness.Fields{"spec": harness.Fields{}}}
	l.SetGroupVersionKind(absent.WithKind("Ledger"))
	l.SetNamespace(s.Namespace)
	l.SetName(one)
	s.Must(suite.API.Create(s.Ctx, l))
	s.Until("ready", func() error {
		s.Must(suite.API.Get(s.Ctx, client.ObjectKeyFromObject(l), l))
		if phase, _, _ := unstructured.NestedString(l.Object, "status", "phase"); phase != string(example.PhaseRunning) {
			return errors.New("phase " + phase)
		}
		return nil
	})
}

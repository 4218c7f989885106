// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// A kind whose CRD is absent waits for it: discovery is asked now and then, nothing is watched and nothing fails. Once the
// CRD is installed, the same process carries out its resources.
func TestAbsentCRD(t *testing.T) {
	s := newScene(t)
	absent := schema.GroupVersion{Group: s.Namespace + ".d3os-product.com.d3os", Version: "v1alpha1"} // nobody else's
	op := s.run(fault.New(), func(op *manager.Operator) error { return register(op, absent) })
	asks := func(r harness.Sent) bool { return strings.HasPrefix(r.Resource, "/apis") }
	first := len(op.Since(0, asks))
	s.Until("asked for the kind, again and again", func() error {
		if asked := len(op.Since(0, asks)) - first; asked < 2 {
			return fmt.Errorf("%d requests for discovery", asked)
		}
		return nil
	})
	watched := func(r harness.Sent) bool { return r.Group == absent.Group }
	failed := func(r harness.Sent) bool { return !asks(r) && r.Code >= http.StatusBadRequest }
	if sent := op.Since(0, func(r harness.Sent) bool { return watched(r) || failed(r) }); len(sent) > 0 {
		t.Errorf("without the CRD: %v", sent)
	}
	if asked := len(op.Since(0, asks)) - first; asked > 20 {
		t.Errorf("discovery was asked %d times", asked)
	}

	s.Must(install(s.Ctx, absent))
	s.Cleanup(func() {
		crd := object.Empty(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		crd.SetName("notebooks." + absent.Group)
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, crd)))
	})
	n := &unstructured.Unstructured{Object: harness.Fields{"spec": harness.Fields{"title": "late"}}}
	n.SetGroupVersionKind(absent.WithKind("Notebook"))
	n.SetNamespace(s.Namespace)
	n.SetName(book)
	s.Must(suite.API.Create(s.Ctx, n))
	s.Until("ready", func() error {
		s.Must(suite.API.Get(s.Ctx, client.ObjectKeyFromObject(n), n))
		if phase, _, _ := unstructured.NestedString(n.Object, "status", "phase"); phase != phaseReady {
			return errors.New("phase " + phase)
		}
		return nil
	})
	s.isOpen(book)
	select {
	case <-op.Ended:
		t.Error("the operator has ended")
	default:
	}
}

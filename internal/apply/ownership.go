// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/plan"
	"d3os.com/d3os-operator/internal/values"
)

// checkOwner allows writing over an object that the owner controls, and over one that nobody
// controls and that carries the owner's name: retained data and credentials taken up again,
// or an object with the operator's digest that lost its owner reference.
func checkOwner(owner Owner, planned, live *unstructured.Unstructured) error {
	conflict := &ConflictError{Kind: planned.GetKind(), Name: planned.GetName()}
	if ref := metav1.GetControllerOf(live); ref != nil {
		if ref.UID == owner.UID {
			return nil
		}
		conflict.Holder = ref.Kind + " " + ref.Name
		return conflict
	}
	labels := live.GetLabels()
	by := labels[plan.LabelManagedBy]
	ours := by == values.ManagedBy && plan.Kept(planned) || (by == values.ManagedBy || by == "") && plan.Digest(live) != ""
	if labels[plan.LabelInstance] == owner.Name && ours {
		return nil
	}
	conflict.Holder = "somebody else"
	switch instance := labels[plan.LabelInstance]; {
	case by == values.ManagedBy && instance != "" && instance != owner.Name:
		conflict.Holder = "DataService " + instance
	case by != "" && by != values.ManagedBy:
		conflict.Holder = by
	}
	return conflict
}

// Owned lists, from the cache, what the owner controls in a namespace. The error is a
// *NewerError when a newer operator wrote some of it, or of what the owner would take up.
func (a *Applier) Owned(ctx context.Context, owner Owner, namespace string) ([]*unstructured.Unstructured, error) {
	var owned, all []*unstructured.Unstructured
	for _, gvk := range Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
		// A list that lags is harmless here: deletions carry the UID.
		err := a.client.List(ctx, list, client.InNamespace(namespace),
			client.MatchingFields{IndexInstance: owner.Name}, client.DisableReadYourWritesConsistency)
		if err != nil {
			return nil, fmt.Errorf("list %s of %s/%s: %w", gvk.Kind, namespace, owner.Name, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			ref := metav1.GetControllerOf(object)
			if ref != nil && ref.UID == owner.UID {
				owned = append(owned, object)
			}
			if ref == nil || ref.UID == owner.UID {
				all = append(all, object)
			}
		}
	}
	return owned, a.checkWriter(all...)
}

func sameSelector(planned, live *unstructured.Unstructured) bool {
	a, _, _ := unstructured.NestedMap(planned.Object, "spec", "selector")
	b, _, _ := unstructured.NestedMap(live.Object, "spec", "selector")
	return reflect.DeepEqual(a, b)
}

// unchangeable tells whether a Service becomes headless or stops to be: the API server keeps the
// address that it once gave, or did not give.
func unchangeable(planned, live *unstructured.Unstructured) bool {
	if planned.GetKind() != "Service" {
		return false
	}
	want, _, _ := unstructured.NestedString(planned.Object, "spec", "clusterIP")
	has, _, _ := unstructured.NestedString(live.Object, "spec", "clusterIP")
	return has != "" && (want == corev1.ClusterIPNone) != (has == corev1.ClusterIPNone)
}

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }

// immutableCause recognises the API server's two ways to say that a field cannot change
// (k8s.io/kubernetes/pkg/apis/apps/validation).
func immutableCause(kind string, cause metav1.StatusCause) bool {
	if strings.Contains(cause.Message, "field is immutable") {
		return true
	}
	return kind == "StatefulSet" && cause.Field == "spec" && cause.Type == metav1.CauseTypeForbidden &&
		strings.Contains(cause.Message, "updates to statefulset spec")
}

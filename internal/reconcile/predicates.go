// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// ownedChanged passes events that may need a write or change the status: every creation and deletion, and every update except one that
// changes only insignificant fields of the status.
func ownedChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*unstructured.Unstructured)
			after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
			if !ok1 || !ok2 {
				return true
			}
			if before.GetResourceVersion() == after.GetResourceVersion() {
				return false // an event of a resync; see resynced for the resources
			}
			return declaredChanged(before, after) || stateOf(before) != stateOf(after)
		},
	}
}

// statusChanged passes updates whose status differs. Most of these events follow the operator's own patches and cause no write. They are
// needed after a restart: this process may have read a cached status that is older than the last patch of its predecessor, and must compare
// again when that patch arrives.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(statusOf(e.ObjectOld), statusOf(e.ObjectNew))
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// statusOf returns the field Status, which the Go types of all resources have.
func statusOf(resource client.Object) any {
	return reflect.ValueOf(resource).Elem().FieldByName("Status").Interface()
}

// resynced passes the periodic events of unchanged resources.
func resynced() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// declaredChanged reports whether two versions of an object differ in more than the status and the bookkeeping parts of the metadata.
func declaredChanged(before, after *unstructured.Unstructured) bool {
	if !maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
		return true
	}
	for _, field := range []string{"spec", "data", "binaryData", "type", "immutable"} {
		if !equality.Semantic.DeepEqual(before.Object[field], after.Object[field]) {
			return true
		}
	}
	return false
}

// stateOf returns the health of an object. It omits Rolling, and a hint that does not report missing pods, because these change often during a
// rollout. For a resource of the operator's kinds, stateOf keeps both, because the hint describes the running step.
func stateOf(o *unstructured.Unstructured) health.State {
	state := health.Assess([]*unstructured.Unstructured{o}, nil)
	if object.IsResource(o) {
		return state
	}
	state.Rolling = false
	if state.HintCulprit.Reason != health.ReasonPodsMissing {
		state.Hint, state.HintCulprit = "", health.Culprit{}
	}
	return state
}

// podTroubled passes events of pods whose problem begins, ends or changes, or which run without being ready. If only
// the number of ready pods changes, the event of the workload triggers a reconciliation.
func podTroubled() predicate.Predicate {
	problem := func(object any) string {
		pod, ok := object.(*corev1.Pod)
		if ok && health.Unready(pod) {
			return "not ready"
		}
		if ok {
			return health.PodProblem(pod)
		}
		return ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return problem(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return problem(e.ObjectOld) != problem(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return problem(e.Object) != "" },
	}
}

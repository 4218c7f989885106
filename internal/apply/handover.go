// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"d3os.com/d3os-operator/internal/object"
)

// scaleManager owns the number of pods of a workload or an EtcdCluster after the plan has stopped setting the number, until an autoscaler
// sets it.
const scaleManager = FieldManager + "-scale"

// handOver keeps the number of pods when the plan stops setting spec.replicas, because another writer may set that field from now on. Server-side
// apply would remove the field together with its last owner, and the API server would then set its default. So scaleManager owns the field until the
// other writer sets it. A number of 0 is not kept: the plan had stopped the workload, and the default of 1 starts it again.
func (a *Applier) handOver(ctx context.Context, planned, live *unstructured.Unstructured) error {
	if !leavesReplicas(planned) || !object.IsResource(planned) && podsOf(live) <= 1 {
		return nil
	}
	live, err := get(ctx, a.live, live) // the cache drops field managers
	if err != nil || live == nil || !OwnsReplicas(live.GetManagedFields()) {
		return err
	}
	scale := object.Empty(live.GroupVersionKind())
	scale.SetName(live.GetName())
	scale.SetNamespace(live.GetNamespace())
	scale.SetUID(live.GetUID())
	scale.Object["spec"] = map[string]any{"replicas": podsOf(live)}
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(scale), client.FieldOwner(scaleManager))
	if err != nil {
		return fmt.Errorf("hand over the replicas of %s: %w", describe(live), err)
	}
	return nil
}

// leavesReplicas reports whether a planned workload, or a planned resource of this operator such as an EtcdCluster,
// leaves out spec.replicas.
func leavesReplicas(planned *unstructured.Unstructured) bool {
	switch kind := planned.GetKind(); {
	case kind == "Deployment", kind == "StatefulSet":
	case object.IsResource(planned) && !object.IsForeign(planned):
	default:
		return false
	}
	_, isPlanned, _ := unstructured.NestedFieldNoCopy(planned.Object, "spec", "replicas")
	return !isPlanned
}

// podsOf returns the number of pods in an object's spec.
func podsOf(o *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return n
}

// OwnsReplicas reports whether FieldManager owns spec.replicas of an object.
func OwnsReplicas(managers []metav1.ManagedFieldsEntry) bool {
	return slices.Contains(managersOfReplicas(managers), FieldManager)
}

// managersOfReplicas returns the field managers that own spec.replicas of an object.
func managersOfReplicas(managers []metav1.ManagedFieldsEntry) (found []string) {
	for _, m := range managers {
		fields := &fieldpath.Set{}
		if m.FieldsV1 != nil && fields.FromJSON(m.FieldsV1.GetRawReader()) == nil && fields.Has(fieldpath.MakePathOrDie("spec", "replicas")) {
			found = append(found, m.Manager)
		}
	}
	return found
}

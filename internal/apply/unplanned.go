// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// Server-side apply keeps entries that other writers have added to a map or list. Most of these entries are allowed: labels, annotations, a
// sidecar that a webhook injects. The operator removes two sorts (hasUnplanned): entries that change the running program (a variable, a
// file in a configuration, a command, a port of a Service, a paused rollout), and entries that block planned fields (a disruption budget
// may have only one of two limits).

// hasUnplanned reports whether the live object has entries of the two sorts, or the annotation of an unfinished restore.
func hasUnplanned(planned, live *unstructured.Unstructured) bool {
	if restoring(live) {
		return true
	}
	if object.IsUntyped(planned.GroupVersionKind()) {
		return false
	}
	if object.IsResource(planned) {
		has, _ := live.Object["spec"].(map[string]any)
		if leavesReplicas(planned) {
			has = maps.Clone(has)
			delete(has, "replicas")
		}
		return unplannedFields(planned.Object["spec"], has)
	}
	switch planned.GetKind() {
	case "ConfigMap", "Secret":
		return unplannedKeys(planned.Object, live.Object, "data") || unplannedKeys(planned.Object, live.Object, "binaryData")
	case "Service":
		return unplannedItems(items(planned.Object, "spec", "ports"), items(live.Object, "spec", "ports"), portKey) ||
			unplannedPath(planned.Object, live.Object, externalIPs)
	case "PodDisruptionBudget":
		return slices.ContainsFunc(limits, func(limit string) bool { return isSet(live, limit) && !isSet(planned, limit) })
	}
	if paused, _, _ := unstructured.NestedBool(live.Object, "spec", "paused"); paused || defaultInTheWay(planned, live) {
		return true
	}
	return hasUnplannedOfPods(planned, live)
}

// defaultInTheWay reports whether a StatefulSet with the planned strategy OnDelete has settings of RollingUpdate. The API server sets these
// settings by default, and refuses them together with OnDelete. An apply does not remove them, because no manager owns them.
func defaultInTheWay(planned, live *unstructured.Unstructured) bool {
	_, there, _ := unstructured.NestedFieldNoCopy(live.Object, rollingUpdate...)
	return there && isOnDelete(planned)
}

func isOnDelete(set *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(set.Object, "spec", "updateStrategy", "type")
	return set.GetKind() == "StatefulSet" && strategy == "OnDelete"
}

var rollingUpdate = []string{"spec", "updateStrategy", "rollingUpdate"}

// annotationRestoring marks an object between the two writes of a restore, or of a creation by post. An operator that starts in between
// does the second write.
const annotationRestoring = "d3os-product.com.d3os/restoring"

func markRestoring(obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	annotations[annotationRestoring] = "true"
	obj.SetAnnotations(annotations)
}

func restoring(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[annotationRestoring] != ""
}

// restore writes the live object as planned in one update, with exactly the planned items in its lists. Unlike an apply, it removes foreign
// entries, and variables that differ in form from the planned ones. After an update, the operator has two entries in metadata.managedFields,
// Update and Apply. A later apply could not remove fields of the entry Update. So if planned fields change, a second write sets
// metadata.managedFields as a server-side apply would.
func (a *Applier) restore(ctx context.Context, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !mayRestore(planned.GetKind()) { // the creation of the object was interrupted
		marked, err := get(ctx, a.live, live) // the cache drops field managers
		if err != nil || marked == nil || !restoring(marked) {
			return live, err
		}
		return marked, a.finish(ctx, marked)
	}
	object, err := a.compare.merge(withPlannedLists(planned, live), planned)
	if err != nil {
		return nil, err
	}
	kept, err := a.compare.contains(live, planned)
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(live.GetResourceVersion())
	a.stamp(object, live)
	if !kept {
		markRestoring(object)
	}
	if err := a.client.Update(ctx, object, client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("restore %s: %w", describe(planned), err)
	}
	if !restoring(object) {
		return object, nil
	}
	return object, a.finish(ctx, object)
}

// withPlannedLists returns a copy of the live object with the planned items in the lists that the plan owns.
func withPlannedLists(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	resource := object.IsResource(planned)
	object := live.DeepCopy()
	planned = planned.DeepCopy()
	if resource {
		replicas, isSet, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas")
		leaves := leavesReplicas(planned)
		setField(object.Object, "spec", planned.Object["spec"])
		if spec, _ := object.Object["spec"].(map[string]any); isSet && leaves && spec != nil {
			spec["replicas"] = replicas
		}
		return object
	}
	switch planned.GetKind() {
	case "ConfigMap", "Secret":
		setField(object.Object, "data", planned.Object["data"])
		setField(object.Object, "binaryData", planned.Object["binaryData"])
	case "Service":
		spec, _ := object.Object["spec"].(map[string]any)
		ports := items(planned.Object, "spec", "ports")
		for i, port := range ports {
			// Keep values that the API server chose for the port, such as the node port.
			if merged := maps.Clone(find(items(spec, "ports"), portKey, portKey(port))); merged != nil {
				maps.Copy(merged, port)
				ports[i] = merged
			}
		}
		setField(spec, "ports", list(ports))
		if unplannedPath(planned.Object, object.Object, externalIPs) {
			unstructured.RemoveNestedField(object.Object, externalIPs...)
		}
	case "PodDisruptionBudget":
		for _, limit := range limits {
			if !isSet(planned, limit) {
				unstructured.RemoveNestedField(object.Object, "spec", limit)
			}
		}
	default:
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
		if isOnDelete(planned) {
			unstructured.RemoveNestedField(object.Object, rollingUpdate...)
		}
		removeUnplannedOfPods(planned, object)
	}
	return object
}

// mayRestore reports whether hasUnplanned checks objects of a kind.
func mayRestore(kind string) bool {
	switch kind {
	case "PersistentVolumeClaim", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", object.Route.Kind:
		return false
	}
	return true
}

// limits are the limits of a disruption budget.
var limits = []string{"minAvailable", "maxUnavailable"}

func isSet(object *unstructured.Unstructured, field string) bool {
	_, set, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", field)
	return set
}

// setField sets a field, or removes the field if there is no value.
func setField(object map[string]any, field string, value any) {
	if value == nil {
		delete(object, field)
		return
	}
	object[field] = value
}

// key returns the value by which the API server identifies an item of a list.
type key func(map[string]any) any

func nameKey(item map[string]any) any { return item["name"] }

func portKey(item map[string]any) any {
	protocol := item["protocol"]
	if protocol == nil {
		protocol = "TCP"
	}
	return [2]any{item["port"], protocol}
}

func unplannedKeys(planned, live map[string]any, field string) bool {
	want, _ := planned[field].(map[string]any)
	has, _ := live[field].(map[string]any)
	for k := range has {
		if _, ok := want[k]; !ok {
			return true
		}
	}
	return false
}

// unplannedFields reports whether a part of a resource has fields that the planned part lacks. The plan owns all fields of the operator's
// own resources, except a number of pods that the plan does not set. Fields with the value false count as missing.
func unplannedFields(planned, live any) bool {
	switch has := live.(type) {
	case map[string]any:
		want, _ := planned.(map[string]any)
		for name, value := range has {
			if there, ok := want[name]; !ok && value != false || unplannedFields(there, value) {
				return true
			}
		}
	case []any:
		want, _ := planned.([]any)
		for i := range has {
			if i >= len(want) || unplannedFields(want[i], has[i]) {
				return true
			}
		}
	}
	return false
}

func unplannedItems(planned, live []map[string]any, by key) bool {
	known := make(map[any]bool, len(planned)) // a spec may hold thousands of variables
	for _, item := range planned {
		known[by(item)] = true
	}
	return slices.ContainsFunc(live, func(item map[string]any) bool { return !known[by(item)] })
}

// items returns the maps in the list at a path, without copying them.
func items(object map[string]any, path ...string) []map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	values, _ := value.([]any)
	found := make([]map[string]any, 0, len(values))
	for _, item := range values {
		if m, ok := item.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// list converts maps to the value of a list in an object, or to nil if there are none.
func list(items []map[string]any) any {
	if len(items) == 0 {
		return nil
	}
	values := make([]any, len(items))
	for i, item := range items {
		values[i] = item
	}
	return values
}

func find(list []map[string]any, by key, value any) map[string]any {
	for _, item := range list {
		if by(item) == value {
			return item
		}
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// keep returns the planned object with the parts of the live object that must stay: the size of an enlarged claim, the
// revisionHistoryLimit of a StatefulSet, labels and annotations that were added to claim templates, and foreign paths
// of an Ingress. Claim templates and paths are atomic lists, so an apply would remove the additions. keep depends only
// on the two objects, so a restarted operator writes nothing.
func keep(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	switch planned.GetKind() {
	case object.StatefulSetKind.Kind:
		return keepHistory(keepTemplates(planned, live), live)
	case "Ingress":
		return keepPaths(planned, live)
	}
	return keepGrown(planned, live)
}

// keepTemplates returns the planned StatefulSet with labels and annotations that stampTemplates or an admission policy has added to the
// live claim templates. Templates cannot be changed: an update would replace the StatefulSet, and the policy would add its labels
// again. If the live object has the planned digest, keepTemplates also keeps live fields of a template's spec that the plan does not set.
func keepTemplates(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	eachTemplate(live, func(template *unstructured.Unstructured) { found[template.GetName()] = template })
	if len(found) == 0 {
		return planned
	}
	kept, samePlan := planned.DeepCopy(), object.Digest(planned) == object.Digest(live)
	eachTemplate(kept, func(template *unstructured.Unstructured) {
		has := found[template.GetName()]
		if has == nil {
			return
		}
		if labels := with(has.GetLabels(), template.GetLabels()); len(labels) > 0 {
			template.SetLabels(labels)
		}
		if annotations := with(has.GetAnnotations(), template.GetAnnotations()); len(annotations) > 0 {
			template.SetAnnotations(annotations)
		}
		if want, ok := template.Object["spec"].(map[string]any); ok && samePlan {
			spec, _ := has.Object["spec"].(map[string]any)
			for name, value := range spec {
				if _, isPlanned := want[name]; !isPlanned {
					want[name] = value
				}
			}
		}
	})
	return kept
}

// keepHistory returns the planned StatefulSet with the live revisionHistoryLimit. Kubernetes 1.29 refuses to change
// this field. A new value would replace the StatefulSet, although no pod changes.
func keepHistory(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	const field = "revisionHistoryLimit"
	has, _, _ := unstructured.NestedInt64(live.Object, "spec", field)
	if want, isPlanned, _ := unstructured.NestedInt64(planned.Object, "spec", field); !isPlanned || has == 0 || want == has {
		return planned
	}
	kept := planned.DeepCopy()
	_ = unstructured.SetNestedField(kept.Object, has, "spec", field) // a StatefulSet has a spec
	return kept
}

// with returns a map with the entries of both maps. Planned entries override live ones.
func with(has, planned map[string]string) map[string]string {
	all := maps.Clone(has)
	if all == nil {
		return planned
	}
	maps.Copy(all, planned)
	return all
}

// keepPaths returns the planned Ingress together with the live paths to foreign Services, such as the path of
// cert-manager's HTTP-01 solver. These paths keep their positions. Live paths to planned Services are not kept if the
// plan lacks them.
func keepPaths(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	own := map[any]bool{}
	for _, rule := range items(planned.Object, "spec", "rules") {
		for _, path := range items(rule, "http", "paths") {
			own[serviceOf(path)] = true
		}
	}
	isForeign := func(path map[string]any) bool { return !own[serviceOf(path)] }
	hasForeign := false
	rules := merge(items(planned.Object, "spec", "rules"), items(live.Object, "spec", "rules"), hostKey, func(want, has map[string]any) map[string]any {
		paths := merge(items(want, "http", "paths"), items(has, "http", "paths"), pathKey, func(want, has map[string]any) map[string]any {
			if want == nil && isForeign(has) {
				hasForeign = true
				return has
			}
			return want
		})
		if len(paths) == 0 {
			return want
		}
		rule := maps.Clone(want)
		if rule == nil {
			rule = maps.Clone(has)
		}
		rule["http"] = map[string]any{"paths": list(paths)}
		return rule
	})
	if !hasForeign {
		return planned
	}
	kept := planned.DeepCopy()
	spec, _ := kept.Object["spec"].(map[string]any)
	spec["rules"] = list(rules)
	kept.SetResourceVersion(live.GetResourceVersion()) // the apply then fails with Conflict if a foreign path was removed since the read
	return kept.DeepCopy()
}

// merge returns a list in the order of the live list, followed by the planned items that the live list lacks. For each live item, it calls choose
// with that item and with the planned item of the same key, or nil if there is none. The result of choose replaces the item; a nil result omits it.
// If several live items have the same key, merge takes only the first.
func merge(planned, live []map[string]any, by key, choose func(want, has map[string]any) map[string]any) (merged []map[string]any) {
	done := map[any]bool{}
	for _, has := range live {
		if done[by(has)] {
			continue
		}
		done[by(has)] = true
		if chosen := choose(find(planned, by, by(has)), has); chosen != nil {
			merged = append(merged, chosen)
		}
	}
	for _, want := range planned {
		if !done[by(want)] {
			merged = append(merged, want)
		}
	}
	return merged
}

func hostKey(rule map[string]any) any { return rule["host"] }

func pathKey(path map[string]any) any { return path["path"] }

// serviceOf returns the name of a path's Service, or nil.
func serviceOf(path map[string]any) any {
	name, _, _ := unstructured.NestedFieldNoCopy(path, "backend", "service", "name")
	return name
}

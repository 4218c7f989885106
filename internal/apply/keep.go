// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// keep returns the planned object with the parts of the live one that stay where the plan has none: the size of a grown claim, and what was
// added to claim templates. It needs no memory, so that an operator that starts does not write what it finds.
func keep(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	if planned.GetKind() == object.StatefulSetKind.Kind {
		return keepTemplates(planned, live)
	}
	return keepGrown(planned, live)
}

// keepTemplates returns the planned StatefulSet with labels and annotations of the live claim templates: those of stampTemplates, and those
// of an admission policy. Templates cannot be changed, so that an update would replace the StatefulSet, and the policy would add them again.
// If the live object has the planned digest, fields of a template's spec that the plan does not set are from its creation, too.
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

// with returns the entries of a map, replaced and completed by the planned ones.
func with(has, planned map[string]string) map[string]string {
	all := maps.Clone(has)
	if all == nil {
		return planned
	}
	maps.Copy(all, planned)
	return all
}

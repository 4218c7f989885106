// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// stamp sets annotations that are not part of the plan on an object that is about to be written: the operator's version and, on an object
// without an owner, that GitOps tools must not delete it. The live object may be nil.
func (a *Applier) stamp(obj, live *unstructured.Unstructured) {
	a.stampVersion(obj)
	if len(obj.GetOwnerReferences()) > 0 {
		return
	}
	var has map[string]string
	if live != nil {
		has = live.GetAnnotations()
	}
	obj.SetAnnotations(object.WithoutPrune(obj.GetAnnotations(), has))
}

// stampTemplates sets the same annotations on the claim templates of a new StatefulSet, because claims have no owner either. A template
// cannot be changed later: package retained annotates the claims of older StatefulSets.
func stampTemplates(set *unstructured.Unstructured) {
	eachTemplate(set, func(_ int, template *unstructured.Unstructured) {
		template.SetAnnotations(object.WithoutPrune(template.GetAnnotations(), nil))
	})
}

// keepTemplates returns the planned object with what stampTemplates set on the templates of the live one.
func keepTemplates(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	if planned.GetKind() != object.StatefulSetKind.Kind {
		return planned
	}
	stamped := map[int]map[string]string{}
	eachTemplate(live, func(i int, template *unstructured.Unstructured) {
		for key, value := range template.GetAnnotations() {
			if object.IsNoPrune(key) {
				if stamped[i] == nil {
					stamped[i] = map[string]string{}
				}
				stamped[i][key] = value
			}
		}
	})
	if len(stamped) == 0 {
		return planned
	}
	kept := planned.DeepCopy()
	eachTemplate(kept, func(i int, template *unstructured.Unstructured) {
		annotations := template.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, stamped[i])
		if len(annotations) > 0 {
			template.SetAnnotations(annotations)
		}
	})
	return kept
}

// eachTemplate calls a function with each template of a StatefulSet's claims, without copying it.
func eachTemplate(set *unstructured.Unstructured, call func(i int, template *unstructured.Unstructured)) {
	if set.GetKind() != object.StatefulSetKind.Kind {
		return
	}
	value, _, _ := unstructured.NestedFieldNoCopy(set.Object, "spec", "volumeClaimTemplates")
	templates, _ := value.([]any)
	for i := range templates {
		if template, ok := templates[i].(map[string]any); ok {
			call(i, &unstructured.Unstructured{Object: template})
		}
	}
}

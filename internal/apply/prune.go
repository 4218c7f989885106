// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// stamp writes on an object that is about to be written what is no part of its plan: who writes it and, on an object without an
// owner, that GitOps tools do not delete it. The live object may be nil.
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

// stampTemplates sets the same on the templates of a new StatefulSet's claims, which have no owner either. A template cannot be
// changed later: the claims of an older StatefulSet are annotated by package retained.
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
		for key, value := range stamped[i] {
			annotations[key] = value
		}
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

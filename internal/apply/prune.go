// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// stamp sets annotations that are not part of the plan before an object is written: the operator's version, and, if the
// object has no owner, annotations that keep GitOps tools from deleting it. live may be nil.
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

// stampTemplates sets the annotations against pruning on the claim templates of a new StatefulSet, because the claims
// of a StatefulSet have no owner. A template cannot be changed later, so internal/manager/retained.go annotates the
// claims of older StatefulSets.
func stampTemplates(set *unstructured.Unstructured) {
	eachTemplate(set, func(template *unstructured.Unstructured) {
		template.SetAnnotations(object.WithoutPrune(template.GetAnnotations(), nil))
	})
}

// eachTemplate calls a function with each claim template of a StatefulSet, without copying it.
func eachTemplate(set *unstructured.Unstructured, call func(template *unstructured.Unstructured)) {
	if set.GetKind() != object.StatefulSetKind.Kind {
		return
	}
	value, _, _ := unstructured.NestedFieldNoCopy(set.Object, "spec", "volumeClaimTemplates")
	templates, _ := value.([]any)
	for i := range templates {
		if template, ok := templates[i].(map[string]any); ok {
			call(&unstructured.Unstructured{Object: template})
		}
	}
}

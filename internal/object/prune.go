// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that prevent GitOps tools from deleting an object. Argo CD uses LabelInstance as its tracking label: without these
// annotations, an Application with the resource's name deletes each object that has the label but no owner, and that is not in Git.
const (
	annotationArgoSync    = "argocd.argoproj.io/sync-options"
	annotationArgoCompare = "argocd.argoproj.io/compare-options"
	annotationFluxPrune   = "kustomize.toolkit.fluxcd.io/prune"

	argoNoPrune, argoNoDelete = "Prune=false", "Delete=false"
)

// noPrune holds the default value of each annotation.
var noPrune = map[string]string{
	annotationArgoSync:    argoNoPrune + "," + argoNoDelete,
	annotationArgoCompare: "IgnoreExtraneous",
	annotationFluxPrune:   "disabled",
}

// WithoutPrune adds the annotations that prevent GitOps tools from deleting an object, and returns the result. Values that a user set on the live
// object stay. These annotations are not part of a plan or digest, like AnnotationWriter.
func WithoutPrune(annotations, live map[string]string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range noPrune {
		switch has := live[key]; {
		case has == "":
			annotations[key] = value
		case key == annotationArgoSync:
			annotations[key] = withOptions(has)
		default:
			annotations[key] = has
		}
	}
	return annotations
}

// withOptions adds the missing options of Argo CD to a user's list.
func withOptions(options string) string {
	for _, option := range []string{argoNoPrune, argoNoDelete} {
		name, _, _ := strings.Cut(option, "=")
		if !slices.ContainsFunc(strings.Split(options, ","), func(has string) bool {
			return strings.HasPrefix(strings.TrimSpace(has), name+"=")
		}) {
			options += "," + option
		}
	}
	return options
}

// IsNoPrune reports whether an annotation is one of those that WithoutPrune sets.
func IsNoPrune(annotation string) bool { return noPrune[annotation] != "" }

// LacksNoPrune reports whether WithoutPrune would change the annotations of a live object.
func LacksNoPrune(o metav1.Object) bool {
	live := o.GetAnnotations()
	for key, value := range WithoutPrune(nil, live) {
		if live[key] != value {
			return true
		}
	}
	return false
}

// IsRetained reports whether an object of the operator outlives its resource. Such an object has no owner. It has
// AnnotationPolicy, or it is a claim that a StatefulSet made from its template. Any other object without an owner has
// lost its owner reference, and the operator sets the reference again.
func IsRetained(o metav1.Object, isClaim bool) bool {
	labels := o.GetLabels()
	if len(o.GetOwnerReferences()) > 0 || labels[LabelManagedBy] != ManagedBy || labels[LabelInstance] == "" {
		return false
	}
	return isClaim && labels[LabelComponent] != "" || o.GetAnnotations()[AnnotationPolicy] == PolicyKeep
}

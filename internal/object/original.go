// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// LabelOriginal is set on the objects of the original operator, which this project replaces. Its value is the name of the DataService.
const LabelOriginal = "dataservice"

// OriginalKinds are the kinds of the objects that the original operator made.
var OriginalKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
}

// Marked reports whether this operator wrote an object. The digest or the label is enough, because a user may remove one of the two.
func Marked(object metav1.Object) bool {
	return object.GetAnnotations()[AnnotationDigest] != "" || object.GetLabels()[LabelManagedBy] == ManagedBy
}

// NotAdopted reports whether an object belongs to the owner by its controller reference or by the original operator's label, but was not
// written by this operator.
func (o Owner) NotAdopted(object metav1.Object) bool {
	if Marked(object) {
		return false
	}
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		return ref.UID == o.UID
	}
	return o.GroupKind() == kindWithoutLabel && object.GetLabels()[LabelOriginal] == o.Name
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Owner is the resource that objects are applied for.
type Owner struct {
	schema.GroupVersionKind

	Namespace string
	Name      string
	UID       types.UID
}

// kindWithoutLabel is the kind whose objects carry no LabelKind.
var kindWithoutLabel = schema.GroupKind{Group: "d3os-product.com.d3os", Kind: "DataService"}

// KindLabel returns the value of LabelKind for objects of this owner, or "" if they lack it.
func (o Owner) KindLabel() string { return kindLabel(o.GroupKind()) }

func kindLabel(kind schema.GroupKind) string {
	if kind == kindWithoutLabel {
		return ""
	}
	return strings.ToLower(kind.String())
}

// Labels returns the labels of every object of a part, including pods. The operator's cache selects objects by these labels. The labels
// identify the owner of an object without a controller.
func (o Owner) Labels(part string) map[string]string {
	labels := map[string]string{LabelManagedBy: ManagedBy, LabelInstance: o.Name, LabelComponent: part}
	if kind := o.KindLabel(); kind != "" {
		labels[LabelKind] = kind
	}
	return labels
}

// Reference returns the owner reference for the objects that the owner controls.
func (o Owner) Reference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: o.GroupVersion().String(), Kind: o.Kind, Name: o.Name, UID: o.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// Controls reports whether the owner is the controller of an object.
func (o Owner) Controls(object metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	return ref != nil && ref.UID == o.UID
}

// Names reports whether an object's labels contain the name and kind of the owner. These labels identify the owner of objects
// without a controller, such as retained data.
func (o Owner) Names(object metav1.Object) bool {
	return OwnerKey(object) == o.Key()
}

// Owns reports whether an object belongs to the owner. The owner is the object's controller, or the object has no
// controller, the operator wrote it, and its labels name the owner. Labels alone prove nothing: an object of another
// owner, or of an earlier resource of the same name, may have the same labels.
func (o Owner) Owns(object metav1.Object) bool {
	if metav1.GetControllerOfNoCopy(object) != nil {
		return o.Controls(object)
	}
	annotations := object.GetAnnotations()
	written := annotations[AnnotationDigest] != "" || annotations[AnnotationPolicy] == PolicyKeep
	return o.Names(object) && object.GetLabels()[LabelManagedBy] == ManagedBy && written
}

// Key identifies the owner among all kinds within its namespace; see OwnerKey.
func (o Owner) Key() string { return key(o.KindLabel(), o.Name) }

// OwnerKey returns the Key of the owner that an object's labels name, or "" when they name none.
func OwnerKey(object metav1.Object) string {
	labels := object.GetLabels()
	if labels[LabelInstance] == "" {
		return ""
	}
	return key(labels[LabelKind], labels[LabelInstance])
}

func key(kind, name string) string { return kind + "/" + name }

// OwnerOf returns the namespace and name of the resource of a kind that an object belongs to. The resource is the
// object's controller. If the object has no controller of this kind, it is the resource in the labels, as for retained
// data and pods. The name is empty if the object belongs to a resource of another kind.
func OwnerOf(kind schema.GroupKind, object metav1.Object) types.NamespacedName {
	found := types.NamespacedName{Namespace: object.GetNamespace()}
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		if group, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && group.WithKind(ref.Kind).GroupKind() == kind {
			found.Name = ref.Name
			return found
		}
	}
	if labels := object.GetLabels(); labels[LabelKind] == kindLabel(kind) {
		found.Name = labels[LabelInstance]
	}
	return found
}

// OwnerText returns the owner in an object's labels for messages, such as "DataService platform", or "".
func OwnerText(object metav1.Object) string {
	labels := object.GetLabels()
	kind := labels[LabelKind]
	if kind == "" {
		kind = kindWithoutLabel.Kind
	}
	if labels[LabelInstance] == "" {
		return ""
	}
	return kind + " " + labels[LabelInstance]
}

// ID identifies an object within its namespace, for all versions of its kind.
type ID struct{ Group, Kind, Name string }

// IDOf returns the ID of an object.
func IDOf(o *unstructured.Unstructured) ID {
	gvk := o.GroupVersionKind()
	return ID{gvk.Group, gvk.Kind, o.GetName()}
}

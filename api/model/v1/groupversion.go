// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the API of ModelBoxes. It imports no package of internal/.
//
// +kubebuilder:object:generate=true
// +groupName=model.github.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of the resource that this package defines.
const Kind = "ModelBox"

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "model.github.com", Version: "v1"}

// AddToScheme registers this package's types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ModelBox{}, &ModelBoxList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

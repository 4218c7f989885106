// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the API of the operator: the DataService resource, its status
// and the names of its conditions and reasons. It imports no package of internal/.
//
// +kubebuilder:object:generate=true
// +groupName=d3os-product.com.d3os
// +groupGoName=DataService
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of the resource that this package defines.
const Kind = "DataService"

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "d3os-product.com.d3os", Version: "v1"}

	// SchemeGroupVersion is GroupVersion. The clients that code-generator makes need this name.
	SchemeGroupVersion = GroupVersion

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers this package's types.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DataService{}, &DataServiceList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Resource returns the group and the plural name of a resource. The clients that code-generator makes need it.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

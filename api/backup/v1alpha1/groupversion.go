// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of backups: the DataBackup resource, its status
// and the names of its conditions and reasons. It imports nothing internal.
//
// +kubebuilder:object:generate=true
// +groupName=d3os-product.com.d3os
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindDataBackup is the kind of a backup on demand.
const KindDataBackup = "DataBackup"

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "d3os-product.com.d3os", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers this package's types.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DataBackup{}, &DataBackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of backups: the resources DataBackup and DataRestore, their
// status and the names of their conditions and reasons. It imports no package of internal/.
//
// +kubebuilder:object:generate=true
// +groupName=d3os-product.com.d3os
// +groupGoName=Backup
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds of this package.
const (
	// KindDataBackup is the kind of a backup on demand.
	KindDataBackup = "DataBackup"
	// KindDataRestore is the kind of a restore next to a running database.
	KindDataRestore = "DataRestore"
)

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "d3os-product.com.d3os", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion. The clients that code-generator makes need this name.
	SchemeGroupVersion = GroupVersion

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers this package's types.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DataBackup{}, &DataBackupList{}, &DataRestore{}, &DataRestoreList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Resource returns the group and the plural name of a resource. The clients that code-generator makes need it.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// AutoGrow configures the growth of volumes. A volume grows one step at a time and never shrinks.
type AutoGrow struct {
	// limit is the largest size of a volume.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:example=`100Gi`
	Limit resource.Quantity `json:"limit"`

	// at is the used share of the file system at which the volume grows. Default: 80%.
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]?%$`
	// +kubebuilder:example=`90%`
	// +optional
	// +nullable
	At string `json:"at,omitempty"`

	// by is the growth of the volume in one step, as a share of the volume's size. Default: 20%.
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]{0,2}|1000)%$`
	// +kubebuilder:example=`50%`
	// +optional
	// +nullable
	By string `json:"by,omitempty"`
}

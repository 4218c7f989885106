// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// Object is a part of Kubernetes' own API without a schema in the CRD. The operator checks the
// part strictly and names an invalid field in status.conditions.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:Type=object
type Object struct {
	apiextensionsv1.JSON `json:",inline"`
}

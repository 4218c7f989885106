// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/api/resource"

// defaultStorageSize is the default of Storage.Size in the CRD.
const defaultStorageSize = "10Gi"

// SetDefaults sets what the API server sets from the CRD's defaults, for a DataService that
// did not pass through one; a test holds it against the API server. Replica needs none: nil is 1.
func SetDefaults(ds *DataService) {
	if ds.Spec.Rollout.Order == "" {
		ds.Spec.Rollout.Order = OrderDependency
	}
	if mysql := ds.Spec.MySQL; mysql != nil {
		if mysql.Storage.Size.IsZero() {
			mysql.Storage.Size = resource.MustParse(defaultStorageSize)
		}
		if mysql.Storage.Retention == "" {
			mysql.Storage.Retention = RetentionRetain
		}
	}
}

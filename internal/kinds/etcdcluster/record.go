// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// annotationRecord holds the record of a cluster, as JSON, on the ConfigMap <name>-membership.
const annotationRecord = "etcd.database.coreos.com/record"

func recordName(cluster string) string { return cluster + "-membership" }

// readRecord returns the record that an object keeps, which may be nil. A record that cannot be read
// is an error: as an empty one it would say that the cluster has one pod.
func readRecord(o *unstructured.Unstructured) (membership.Record, error) {
	var record membership.Record
	if o == nil || o.GetAnnotations()[annotationRecord] == "" {
		return record, nil
	}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[annotationRecord]), &record); err != nil {
		return record, fmt.Errorf("read the record in annotation %s of ConfigMap %s: remove the annotation, and the operator makes it again from the members and the claims: %w",
			annotationRecord, o.GetName(), err)
	}
	return record, nil
}

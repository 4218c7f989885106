// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// annotationRecord holds the record of a cluster, as JSON, on the ConfigMap <name>-topology.
const annotationRecord = "redis.middleware.hc.cn/record"

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func recordName(cluster string) string { return cluster + "-topology" }

// readRecord returns the record that an object keeps, which may be nil. A record that cannot be read
// is an error: as an empty one it would say that the cluster was never formed.
func readRecord(o *unstructured.Unstructured) (topology.Record, error) {
	var record topology.Record
	if o == nil || o.GetAnnotations()[annotationRecord] == "" {
		return record, nil
	}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[annotationRecord]), &record); err != nil {
		return record, fmt.Errorf("read the record in annotation %s of ConfigMap %s: restore it from a backup, or remove the annotation if the pods have no data: %w",
			annotationRecord, o.GetName(), err)
	}
	return record, nil
}

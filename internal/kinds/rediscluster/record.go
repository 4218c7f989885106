// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// records are the records of clusters, on the ConfigMaps <name>-topology.
var records = stateful.Records[topology.Record]{
	Annotation: "redis.middleware.hc.cn/record", Suffix: "-topology",
	Advice: "restore it from a backup, or remove the annotation if the pods have no data",
}

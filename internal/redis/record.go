// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// records are the records of clusters, in annotations of the ConfigMaps <name>-topology.
var records = database.Records[topology.Record]{
	Annotation: "redis.middleware.hc.cn/record", Suffix: "-topology",
	Advice: "restore the annotation from a backup, or remove it if the pods have no data",
}

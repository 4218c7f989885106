// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql/replication"
)

// records are the records of databases, in annotations of the ConfigMaps <name>-replication.
var records = database.Records[replication.Record]{
	Annotation: "d3os-product.com.d3os/record", Suffix: "-replication",
	Advice: "restore the annotation from a backup of the ConfigMap: without the annotation no member becomes the primary",
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// records are the records of clusters, on the ConfigMaps <name>-membership.
var records = stateful.Records[membership.Record]{
	Annotation: "etcd.database.coreos.com/record", Suffix: "-membership",
	Advice: "remove the annotation, and the operator makes it again from the members and the claims",
}

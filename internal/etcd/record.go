// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

// records are the records of clusters, in annotations of the ConfigMaps <name>-membership.
var records = database.Records[membership.Record]{
	Annotation: "etcd.database.coreos.com/record", Suffix: "-membership",
	Advice: "remove the annotation, and the operator creates the record again from the members and the claims",
}

// agentPods is the annotation of the StatefulSet with the digest of its pod template without the agent's image.
const agentPods = database.Agent("etcd.database.coreos.com/pods")

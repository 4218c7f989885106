// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stateful is what the kinds have in common that run servers with data in StatefulSets of the strategy OnDelete
// (RedisCluster, EtcdCluster): the record of what cannot be observed, the effects on pods and claims with their proofs,
// the memory of the last plan, what is read of a StatefulSet and its pods, and the conditions of the status. It knows no
// kind of resource and no server. Below it: proof, for the packages that speak with servers.
package stateful

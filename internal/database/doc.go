// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package database holds code that is common to the kinds that run servers with data in StatefulSets of the strategy OnDelete
// (RedisCluster, EtcdCluster):
//
//   - the record of state that cannot be observed;
//   - effects on pods and claims, with their proofs;
//   - the cache of the last plan;
//   - the fields of a StatefulSet and its pods that they read;
//   - certificate authorities and the certificates that they sign;
//   - the conditions of the status.
//
// The package depends on no kind of resource and on no server. Its subpackage proof is for the packages that connect to servers.
package database

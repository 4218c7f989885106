// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package database holds code that the kinds RedisCluster, EtcdCluster and MySQLCluster share. These kinds run servers with data in
// StatefulSets with the update strategy OnDelete. The package:
//
//   - reads and writes the record, which stores the state that cannot be observed;
//   - annotates and deletes pods and claims, after it has checked that these are still the objects of the decision;
//   - caches the last plan;
//   - reads fields of StatefulSets and their pods;
//   - creates certificate authorities, and issues certificates;
//   - sets the conditions of the status.
//
// The package depends on no kind of resource and on no server. The packages that connect to servers use the subpackage steps.
package database

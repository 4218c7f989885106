// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster implements the kind MySQLCluster: a MySQL database of up to five members that replicate. It plans one StatefulSet, queries
// the agent of each member (package client), decides (package replication), and takes one step in each pass.
//
// A step is taken by an executor. It reads the record and the pods from the API server and queries the members again, proves the facts of the
// step, and then has its one effect. Nothing is remembered between passes except for how long a member has been silent or bad.
package cluster

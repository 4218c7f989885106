// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster implements the kind MySQLCluster: a MySQL database of up to five members that replicate. A pass plans one StatefulSet,
// queries the agent of each member (package client), decides (package replication), and runs one step.
//
// An executor runs the step. It reads the record and the pods from the API server, queries the members again, and proves the facts of the
// step. Only then does it carry out the step's only side effect. Between passes, the operator keeps in memory only what earlier passes
// have observed, for example how long a member has been silent, or how long steps have failed.
package cluster

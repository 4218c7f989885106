// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology decides how to operate a Redis Cluster. It merges the reports of the nodes into a model and a verdict, and returns the
// next step. It is pure: no connection, no client, no clock.
//
//	Nodes (one report per pod) -> Merge -> Model and Verdict -> Decide -> Steps
//
// Package server reads the nodes and runs the steps.
package topology

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology knows Redis Cluster: what its nodes say of themselves and of
// each other, what that amounts to, and which step comes next. It is pure: no
// connection, no client, no clock.
//
//	Nodes (what each pod said) -> Merge -> Model and Verdict -> Decide -> Steps
//
// Package server reads the nodes and takes the steps.
package topology

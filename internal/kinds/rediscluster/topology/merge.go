// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Merge works out what the views of all nodes amount to. It has an answer for every input.
func Merge(wanted Wanted, record Record, nodes []Node) Model { return Decide(wanted, record, nodes).Model }

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership decides how to operate an etcd cluster. It combines what pods, claims and members report into a model and a verdict,
// and returns the next step. It is pure: no connection, no client, no clock.
//
//	View (the observation) -> Decide -> Model (the verdict, for users) and Steps, in order
//
// The first step is taken, then everything is observed again. Started changes are recognised by their traces:
//
//   - the Record, an annotation on an object of the cluster, has the number of
//     pods, their version, and the id of the cluster;
//   - a claim's annotations name the member whose data its volume holds;
//   - a ticket, an annotation on one pod, allows that pod to start etcd on an
//     empty volume. It is deleted with the pod.
//
// The agent in each pod starts etcd only on the pod's own data, or with a ticket. So a lost volume never votes, whatever the operator does.
//
// Package server queries the members and runs the steps.
package membership

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership decides how to operate an etcd cluster. It combines the reports of pods, claims and members into a model and a
// verdict, and returns the next step. It is pure: it has no connection, no client and no clock.
//
//	View (the observation) -> Decide -> Model (the verdict, for users) and Steps, in order
//
// The caller runs the first step, and then observes the whole cluster again. Started changes are recognised by their traces:
//
//   - the Record, an annotation on an object of the cluster, stores the number of pods, their version, and the id of
//     the cluster;
//   - a claim's annotations name the member whose data its volume holds;
//   - a ticket, an annotation on one pod, allows that pod to start etcd on an empty volume, or as the only member. It is
//     deleted with the pod.
//
// The agent in each pod starts etcd only on the pod's own data, or with a ticket. So a member whose volume is lost never votes, even if the
// operator makes mistakes.
//
// Package server queries the members and runs the steps.
package membership

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership knows etcd: what pods, claims and members say, what that
// amounts to, and which step comes next. It is pure: no connection, no client,
// no clock.
//
//	View (what was seen) -> Decide -> Model (the verdict, for people) and Steps, in their order
//
// The first step is taken, then everything is looked at again. What was begun
// is recognised by what it left behind:
//
//   - the Record, an annotation on an object of the cluster, says how many pods
//     there are, which version they run, and which cluster this is;
//   - a claim says which member's data its volume holds;
//   - a ticket, an annotation on one pod, allows that very pod to start etcd on
//     an empty volume. It ends with the pod.
//
// The agent in each pod starts etcd only on data of its own, or with a ticket.
// So a volume that was lost never votes, whatever the operator does.
//
// Package server asks the members and takes the steps.
package membership

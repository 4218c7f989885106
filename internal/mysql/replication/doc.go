// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication decides the next step for a replicated MySQL database. It is pure: no connection, no client, no clock.
//
//	Want, Observation -> Decide -> Model (the state, for users) and at most one Step
//
// The operator takes the step, and then observes everything again. A step carries the facts of its decision; the executor reads these
// facts again directly before the effect.
//
// # Record
//
// One Record, outside of the members, stores which member is the primary. A write of the record has the resourceVersion that was read, so
// one of two concurrent writers fails. Its Revision grows with each write. Members store the highest revision that they received, and
// refuse orders with an older one, so a delayed order has no effect.
//
// # Invariants
//
//   - I1: each acknowledged transaction is on the primary and on at least
//     Acknowledgements of the Voters. Without voters, no other member may be
//     promoted.
//   - I2: a new epoch needs promises of Record.Promises voters. A promise is on
//     the member's disk before it is answered. It stops the receiver, and
//     refuses orders of older epochs.
//   - I3: a transition between two states requires more than both. To add a
//     voter: record it, then let it acknowledge. To remove one: cut it off at
//     the primary, prove that the others have all, record the removal. To let
//     the primary run alone: record it, then turn semi-sync off. To end this
//     state: record that one acknowledgement is needed, turn semi-sync on,
//     prove that the voter has all, record the voter.
//
// The voters of a promoted member are only the members that promised and have all its transactions. Without such a voter, the promoted member
// needs an acknowledgement, and cannot be replaced, until a follower has caught up. So I1 also holds for transactions of former epochs.
package replication

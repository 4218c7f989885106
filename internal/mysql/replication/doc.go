// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication decides the next step for a replicated MySQL database. It is pure: it has no connection, no client and no clock.
//
//	Want, Observation -> Decide -> Model (the state, for users) and at most one Step
//
// The operator runs the step, and then observes everything again. A step contains the facts on which its decision depends. The executor
// reads these facts again directly before the side effect.
//
// # Record
//
// One Record, outside of the members, names the primary. Each write of the record sends the resourceVersion that its writer has read, so
// one of two concurrent writers fails. Its Revision increases with each write. Members store the highest revision that they have received,
// and refuse orders with an older revision, so a delayed order has no effect.
//
// # Invariants
//
//   - I1: each acknowledged transaction is on the primary and on at least
//     Acknowledgements of the Voters. Without voters, no other member may be
//     promoted.
//   - I2: a new epoch needs promises of Record.Promises voters. A promise is on
//     the member's disk before the member answers. The member stops its
//     receiver, and refuses orders of older epochs.
//   - I3: while the voters change, the requirements of the old and of the new
//     state both hold. To add a voter: record it, then let it acknowledge. To
//     remove a voter: make the primary refuse it, prove that the other voters
//     have all its transactions, record the removal. To let the primary run
//     alone: record that, then turn semi-sync off. To end this state: record
//     that one acknowledgement is needed, turn semi-sync on, prove that the
//     voter has all transactions, record the voter.
//
// The voters of a promoted member are only the members that have promised and have all its transactions. Without such a voter, the promoted
// member needs an acknowledgement and cannot be replaced until a follower has caught up. So I1 also holds for transactions of former
// epochs.
package replication

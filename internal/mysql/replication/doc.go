// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replication decides what happens next to a replicated MySQL database. It is pure: no connection, no client, no
// clock.
//
//	Want, Observation -> Decide -> Model (the state, for people) and at most one Step
//
// The step is taken, then everything is observed again. A step carries the facts that it was decided on: the executor
// reads them again right before the effect.
//
// # Record
//
// One Record, outside of the members, stores who is primary. It is written with the resourceVersion that was read, so that
// one of two writers loses. Its Revision grows with each write. Members store the highest revision that they were given,
// and refuse orders of an older one, so that a delayed order has no effect.
//
// # Invariants
//
//   - I1: each acknowledged transaction is on the primary and on at least Acknowledgements of the Voters. Without voters,
//     no other member may be promoted.
//   - I2: a new epoch needs promises of Record.Promises voters. A promise is on the member's disk before it is answered. It
//     stops the receiver, and refuses orders of older epochs.
//   - I3: what lies between two states demands more than both. To add a voter: record, then let it acknowledge. To remove
//     one: cut it off at the primary, prove that the others have all, record. To go alone: record, then semi-sync off. To
//     end that: record that one acknowledgement is needed, semi-sync on, prove that the voter has all, record the voter.
//
// A promoted member gets as voters only those promisers that hold all that it holds itself. Without one of them it needs an
// acknowledgement, and cannot be replaced, until a follower has caught up: I1 holds for transactions of former epochs, too.
package replication

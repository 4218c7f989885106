// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql executes orders on the MySQL server of a member of a replicated database. The operator decides
// (internal/mysql/replication). This package carries out the decisions, and refuses orders that would break a promise.
//
// A server starts with Arguments: it is read-only, does not replicate, and neither requires nor sends acknowledgements. After each start,
// the operator orders everything else:
//
//	Promise   stop the receiver, and refuse orders of older epochs, even after a restart
//	Follow    receive from a primary, with or without acknowledgements
//	Promote   become the primary: turn semi-sync on, then become writable
//	Serve     as the primary: set the number of required acknowledgements and the refused connections
//	Demote    as the primary: give all voters the log, become read-only if no commit waits, promise the next epoch, and end
//	Heartbeat as the primary: write a row; its acknowledgement also acknowledges all earlier commits
//
// Each order has an epoch and a revision of the operator's record. Before an order has an effect, the agent stores the highest epoch and
// revision on the volume. It refuses older orders.
package mysql

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql gives orders to the MySQL server of a member of a replicated database. The operator decides
// (internal/mysql/replication); this package has the effects, and refuses what would break a promise.
//
// A server starts with Arguments: it only reads, does not replicate, and neither asks for acknowledgements nor gives any.
// The operator orders everything else after each start:
//
//	Promise   stop the receiver, and refuse orders of older epochs, even after a restart
//	Follow    receive from a primary, and acknowledge or not
//	Promote   become the primary: semi-sync first, then writable
//	Serve     of a primary: how many acknowledgements it demands, and whose connections it refuses
//	Demote    of a primary: become read-only if no commit waits, promise the next epoch, and end
//	Heartbeat of a primary: write a row, whose acknowledgement is one for all before it
//
// Each order has an epoch and a revision of the operator's record. The volume stores the highest ones before an order has an effect, and
// older orders are refused.
package mysql

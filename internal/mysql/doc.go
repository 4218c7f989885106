// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql protects the data of a DataService's database. A pass calls FindForm, FindDatabases, PlanData and
// Databases.Halt for its plan, and Databases.Steps for its next write. These functions use the clients of the pass. The
// following files are pure. Each makes one decision:
//
//   - guard.go: which volume has the data, and whether a database runs on another volume. The check in the pod makes
//     the final decision (cmd/agent), because Kubernetes starts pods without the operator.
//   - form_rules.go: whether a single server would replace a MySQLCluster, or the reverse.
//   - switch_rules.go: which database is in use, and whether another database may replace it.
//   - backups.go: whether the backups of a database are good, by the reports of their pods.
//
// # Switches between databases
//
// The spec names the wanted database and repeats the loss that the switch causes. Only the objects in the cluster show
// which database is in use, so the decision does not depend on the memory of the operator.
//
// Each database has a record. At most one record is clean: the record of the database in use. Every other record is
// marked as replaced. The mark contains the name of the replacing database, the number of the write (turn) and the
// time. While no record is clean, the mark with the highest turn names the database in use. A switch consists of three
// writes. Each write changes one record:
//
//  1. Enlist: the record of the wanted database is marked as replaced by the database in use. From then on the wanted
//     database is recorded, and its server cannot start.
//  2. Replace: the record of the database in use is marked as replaced by the wanted database. This is the switch.
//  3. Reinstate: the record of the new database in use becomes clean, after the last pod of the former database has ended.
//
// Even if these writes are repeated or reordered, two servers never run: the check in the pods refuses a server without
// a clean record.
package mysql

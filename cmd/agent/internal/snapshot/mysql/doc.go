// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql makes a backup of a replicated MySQL database. It restores a backup as the data of the first member of a new database.
//
// A backup contains the files of a member. A server in the backup's pod copies the member by CLONE to the volume of that pod. Another
// server starts on the copy, which proves that the copy is complete. The run counts rows, stops the server cleanly, and writes the folder
// to the store as a tar stream.
//
// The copied member is a voter that follows the primary and acknowledges. So the primary has, or will have, each transaction of the voter.
// After the copy, the run queries the primary: it discards a copy with a transaction that the primary lacks.
package mysql

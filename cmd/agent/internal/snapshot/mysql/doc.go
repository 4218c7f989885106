// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql makes a backup of a replicated MySQL database, and restores a backup as the data of the first member of a new database.
//
// A backup has the files of a member. A server in the pod of the backup copies the member by CLONE to the volume of that pod. Another server
// starts on the copy, which proves that the copy is complete. The run counts rows and stops the server cleanly. Then it writes the folder to
// the store as a tar stream.
//
// The copied member is a voter that follows the primary and acknowledges. So the primary has each transaction of the voter, or will have it.
// The run queries the primary after the copy: a copy with a transaction that the primary lacks is not used.
package mysql

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql makes a backup of a replicated MySQL database, and restores a backup as the data of the first member of a new database.
//
// A backup has the files of a member. A server in the pod of the backup copies the member by CLONE to the volume of that pod. Another server
// starts on the copy: it proves that the copy is whole, counts rows, and ends in order. Then the folder goes to the store as a tar stream.
//
// The member is a voter that follows the primary and acknowledges, so each transaction of it is on the primary too, or will be. The primary is
// asked after the copy was made: a copy with a transaction that the primary lacks becomes no backup.
package mysql

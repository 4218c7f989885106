// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup implements the kinds DataBackup and DataRestore. It also judges the backups of all kinds that have
// backups.
//
// The resource with the data declares CronJobs that back up, check and restore. A DataBackup creates one Job from the
// template of the CronJob for backups (databackup.go). A DataRestore creates a claim, and one Job that restores to this
// claim instead of the database's claim (datarestore.go). It never changes the running database: a user switches to the
// restored database by setting its name in the spec of the DataService. Both kinds follow their Job until it ends
// (job.go). Only the final report of the Job's pod contains the result.
//
// A DataBackup only records how a backup was made: only the store shows whether the backup still exists. The
// package judges scheduled backups by the final reports of their pods (runs.go, schedule.go, cluster.go).
package backup

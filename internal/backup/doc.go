// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup implements the kinds DataBackup and DataRestore, and judges backups for the kinds that have some.
//
// The resource with the data declares CronJobs that back up, check and restore. A DataBackup creates one Job from the template of the
// CronJob for backups (databackup.go). A DataRestore creates a claim, and one Job that restores to this claim instead of the database's
// (datarestore.go). It never changes the database: a user switches to the restored one by naming it in the spec of the DataService. Both
// follow their Job to its end (job.go): only the final report of its pod shows the result of its work.
//
// The store is the source of truth. A DataBackup records how a backup was made. Regular backups are judged by the final reports of their
// pods (runs.go, schedule.go, cluster.go).
package backup

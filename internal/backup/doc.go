// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup implements the kinds DataBackup and DataRestore. It also judges the backups of all kinds that have backups.
//
// The resource with the data declares CronJobs that back up, check and restore. A DataBackup creates one Job from the template of the
// CronJob for backups (databackup.go). A DataRestore creates a claim, and one Job that restores to this claim instead of the database's
// claim (datarestore.go). A DataRestore never changes the running database: a user switches to the restored database by setting its name in
// the spec of the DataService. Both kinds follow their Job to its end (job.go): only the final report of the Job's pod has the result.
//
// The store is the source of truth. A DataBackup records how a backup was made. Scheduled backups are judged by the final reports of their
// pods (runs.go, schedule.go, cluster.go).
package backup

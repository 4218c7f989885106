// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// With method Files, a DataBackup and the schedule copy the files of a running MySQL server. A DataRestore, a check and a new database contain
// the rows of the copy, and the transactions that were archived after the copy.
func TestFiles(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	s := newRealOf(t, "mysql")
	s.server = fields{"image": "example/mysql:" + s.series(), "serverVersion": s.series()}
	s.start()
	declared := fields{"backup": fields{"method": "Files", "verify": fields{"schedule": "@yearly"}}}
	harness.Merge(declared, s.server)
	s.Create(archived("db", declared))
	s.Ready(platform)
	s.sql("db", "CREATE DATABASE app; USE app; CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)); SET cte_max_recursion_depth = 5000; "+
		"INSERT INTO app.t (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 5000) SELECT CONCAT('row ', n, ' ', UUID()) FROM s")
	s.back(name)
	b := s.isReal()
	s.isCopied(b.Status.ID)
	if len(b.Status.Warnings) > 0 || b.Status.Position == nil {
		t.Errorf("the backup has the warnings %q and the position %+v", b.Status.Warnings, b.Status.Position)
	}
	s.sql("db", "INSERT INTO app.t (v) VALUES ('later'), ('and later')")
	s.sql("db", "DELETE FROM app.t WHERE id > 10")
	all := s.sql("db", counted)

	s.restore(rehearsal, func(spec *backupv1.DataRestoreSpec) { spec.Backup = b.Status.ID })
	if r := s.comes(rehearsal, backupv1.PhasePrepared, backupv1.ReasonPrepared); r.Status.ID != b.Status.ID || r.Status.Rows != b.Status.Rows || r.Status.Tables != b.Status.Tables || r.Status.Transactions != 0 {
		t.Errorf("the backup is %+v, and its rehearsal %+v", b.Status, r.Status)
	}
	s.archived()
	s.restore("latest", func(spec *backupv1.DataRestoreSpec) { spec.ToTime = "latest" })
	if r := s.comes("latest", backupv1.PhasePrepared, backupv1.ReasonPrepared); r.Status.ID != b.Status.ID || r.Status.Transactions != 2 || r.Status.Rows >= b.Status.Rows {
		t.Errorf("the backup is %+v, and the latest moment after it %+v", b.Status, r.Status)
	}
	if job := s.job("check", "db-verify"); job.Status.Succeeded != 1 {
		t.Errorf("the check did not succeed: %+v", job.Status)
	}
	if known := s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonVerified).Status.Backup; known.VerifiedID != b.Status.ID {
		t.Errorf("status.backup is %+v", known)
	}

	// The CronJob of the schedule makes the next backup.
	if job := s.job("scheduled", "db-backup"); job.Status.Succeeded != 1 {
		t.Fatalf("the scheduled backup did not succeed: %+v", job.Status)
	}
	last := ""
	s.Eventually("the status has the next backup", func() bool {
		last = s.DataService(platform).Status.Backup.LastID
		return last != b.Status.ID
	})
	s.isCopied(last)
	if got := s.clone(fields{"backup": last}); got != all {
		t.Errorf("the new database has %q, want %q", got, all)
	}
	if got := s.restored(b.Status.ID, counted, "--to-time=latest"); got != all {
		t.Errorf("restored to the latest moment: %q, want %q", got, all)
	}
}

// series returns the release series of the server, such as 9.7.
func (s *realScene) series() string {
	s.Helper()
	out, err := exec.CommandContext(s.Ctx, filepath.Join(s.tools, "mysqld"), "--no-defaults", "--version").Output()
	s.Must(err)
	found := regexp.MustCompile(`Ver (\d+\.\d+)\.`).FindSubmatch(out)
	if found == nil {
		s.Fatalf("no version: %s", out)
	}
	return string(found[1])
}

// isCopied fails the test unless a backup contains the files of the server.
func (s *realScene) isCopied(id string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder(), "backups", id, "manifest.json"))
	s.Must(err)
	var manifest struct{ Base string }
	s.Must(json.Unmarshal(text, &manifest))
	if manifest.Base != "physical" {
		s.Errorf("backup %s is of the form %q", id, manifest.Base)
	}
}

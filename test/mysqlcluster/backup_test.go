// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// ofBackups is the spec of a database with backups on a claim. restored is the spec of a database that is restored from these backups.
const (
	ofBackups = "replicas: %d\nbackup: {destination: {claim: {name: backups}}}\n"
	restored  = ofBackups + "restoreFrom: {destination: {claim: {name: backups}}}\n"
)

// backedUp makes a backup while a client writes and a function runs. It returns the rows of the database at the end, and the rows that were
// acknowledged before the backup began.
func (s *scene) backedUp(members int, called string, meanwhile func()) (made backupv1.DataBackupStatus, rows []string, known []int) {
	s.Helper()
	writer := s.write()
	s.Eventually("some writes", func() bool { return writer.count() > 20 })
	writer.mu.Lock()
	known = slices.Sorted(maps.Keys(writer.acked))
	writer.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	made = s.BackUp(called, mysqlv1.Kind, name)
	<-done
	s.ready(members)
	writer.kept(members)
	return made, s.agree(members), known
}

// comesBack deletes the database and restores it from its backup. The restored rows must be those of one moment during the backup: no row
// before the last row is missing, and all rows exist that were acknowledged before the backup began.
func (s *scene) comesBack(members int, rows []string, known []int) {
	s.Helper()
	before := map[string]bool{}
	for _, m := range s.get().Status.Members {
		before[m.Position[:36]] = true
	}
	s.Lose(s.get())
	s.create(fmt.Sprintf(restored, members))
	s.Logf("ready from the backup after %.1f s", s.ready(members).Seconds())
	s.Until("no pod has access to the store", func() error {
		for ordinal := range members {
			if slices.ContainsFunc(s.pod(ordinal).Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "d3os-restore" }) {
				return fmt.Errorf("pod %d still restores a backup", ordinal)
			}
		}
		return s.isReady(members)
	})
	is := s.agree(members)
	s.Logf("%d of %d rows were restored, and %d were acknowledged before the backup began", len(is), len(rows), len(known))
	if len(is) == 0 || len(is) > len(rows) || !slices.Equal(is, rows[:len(is)]) {
		s.Fatalf("the rows are not those of one moment: %v, of %v", is, rows)
	}
	last, err := strconv.Atoi(is[len(is)-1])
	s.Must(err)
	if len(known) > 0 && last < known[len(known)-1] {
		s.Errorf("row %d was acknowledged before the backup began, and the last restored one is %d", known[len(known)-1], last)
	}
	address, err := s.route()
	s.Must(err)
	uuid, err := s.ask(address, "SELECT @@GLOBAL.server_uuid")
	s.Must(err)
	if before[uuid] {
		s.Errorf("the restored database has the UUID of the lost server, %s", uuid)
	}
	writer := s.write()
	writer.again(time.Now())
	writer.kept(members)
}

// A voter is backed up while a client writes. Then the database is lost with all its data, and restored from this backup.
func TestRestoresFromABackup(t *testing.T) {
	harness.FullForm(t, full)
	const members = 3
	s := newScene(t)
	s.start()
	s.Claim("backups")
	s.create(fmt.Sprintf(ofBackups, members))
	s.ready(members)
	made, rows, known := s.backedUp(members, "first", func() {})
	if made.Phase != backupv1.PhaseSucceeded || made.ID == "" || made.Tables < 1 || made.Rows < int64(len(known)) || made.Position == nil || made.Position.GTID == "" || len(made.Warnings) > 0 {
		t.Fatalf("the backup: %+v", made)
	}
	s.IsBackedUp(made.ID, func() (*backupv1.ClusterBackupStatus, []metav1.Condition) {
		status := &s.get().Status
		if status.Backup == nil {
			return nil, status.Conditions
		}
		return &status.Backup.ClusterBackupStatus, status.Conditions
	})
	t.Logf("the backup of %d bytes took %s, and %d bytes in the store", made.Bytes, made.Duration, made.StoredBytes)
	s.comesBack(members, rows, known)
}

// job returns the pod of the Job with this name if its first container runs, or nil.
func (s *scene) job(called string) *corev1.Pod {
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if pod.Labels["batch.kubernetes.io/job-name"] == called && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil {
			return pod
		}
	}
	return nil
}

// In three backups, the backup's pod, the voters, and the primary are killed or lost. Each backup succeeds, and the last one is restored.
func TestKilledDuringABackup(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.Claim("backups")
	s.create(fmt.Sprintf(ofBackups, 3))
	s.ready(3)
	began := func(called string) {
		s.Eventually("the backup "+called+" has begun", func() bool { return s.job(called) != nil })
	}
	made, _, _ := s.backedUp(3, "pod", func() {
		began("pod")
		s.Must(s.Kill(s.job("pod").Name, syscall.SIGKILL, "backup"))
	})
	assert.Equal(t, made.Phase, backupv1.PhaseSucceeded, "%+v", made) // the Job's next attempt has made the backup
	made, _, _ = s.backedUp(3, "voters", func() {
		began("voters")
		for ordinal := range 3 {
			if ordinal != s.primary() {
				s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
			}
		}
	})
	assert.Equal(t, made.Phase, backupv1.PhaseSucceeded, "%+v", made)
	var node string
	made, rows, known := s.backedUp(3, "failover", func() {
		began("failover")
		node = s.pod(s.primary()).Spec.NodeName
		if node == s.job("failover").Spec.NodeName {
			s.Must(s.Kill(s.pod(s.primary()).Name, syscall.SIGKILL, "mysql"))
			return
		}
		s.Must(s.StopNode(s.Ctx, node))
		s.Eventually("another primary", func() bool { return s.pod(s.primary()).Spec.NodeName != node })
		s.Must(s.StartNode(s.Ctx, node))
	})
	assert.Equal(t, made.Phase, backupv1.PhaseSucceeded, "%+v", made)
	s.comesBack(3, rows, known)
}

// The status names the obstacle to a restore, and the operator creates no empty database instead.
func TestImpossibleRestoreIsReported(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.start()
	s.Claim("backups")
	s.create("replicas: 3\nrestoreFrom: {destination: {claim: {name: backups}}}\n")
	s.Until("the status has the reason", func() error {
		if m := s.get().Status.Message; !strings.Contains(m, "has no backup") {
			return errors.New(m)
		}
		return nil
	})
	if s.get().Status.Primary != "" {
		t.Errorf("a database was created: %+v", s.get().Status)
	}
}

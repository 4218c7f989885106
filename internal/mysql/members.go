// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
)

// Members holds the status of the backups of a database with several members, as its MySQLCluster reports it.
type Members struct {
	Backup *dsv1.BackupStatus
	// Healthy, Recoverable and Restored are the verdicts for the conditions of the DataService; nil removes a condition.
	Healthy, Recoverable, Restored *backup.Verdict
}

// MembersOf returns the status of the backups of a database's MySQLCluster, which may not exist yet. It returns nil if no backups are
// declared.
func MembersOf(declared *dsv1.Backup, cluster *unstructured.Unstructured) (*Members, error) {
	if declared == nil {
		return nil, nil
	}
	var of struct {
		Status struct {
			Backup     dsv1.BackupStatus  `json:"backup"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if cluster != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cluster.Object, &of); err != nil {
			return nil, fmt.Errorf("read the backups of MySQLCluster %s: %w", cluster.GetName(), err)
		}
	}
	verdict := func(kind string) *backup.Verdict {
		c := meta.FindStatusCondition(of.Status.Conditions, kind)
		if c == nil {
			return &backup.Verdict{Reason: dsv1.ReasonNoBackup, Message: "the members have no backup yet"}
		}
		return &backup.Verdict{Good: c.Status == metav1.ConditionTrue, Reason: c.Reason, Message: c.Message}
	}
	m := &Members{Backup: &of.Status.Backup, Healthy: verdict(dsv1.ConditionBackupHealthy)}
	if meta.FindStatusCondition(of.Status.Conditions, dsv1.ConditionRestored) != nil {
		m.Restored = verdict(dsv1.ConditionRestored)
	}
	if declared.PointInTime != nil {
		m.Recoverable = verdict(dsv1.ConditionRecoverable)
	}
	return m, nil
}

// The delays until the next pass that reads the backups of members. A changed condition of a MySQLCluster triggers no pass.
const (
	membersSeen = 15 * time.Second
	membersRest = 30 * time.Second
)

// LookAgain returns the delay until the next pass that reads the backups; 0 for none.
func (m *Members) LookAgain() time.Duration {
	switch {
	case m == nil:
		return 0
	case !m.Healthy.Good, m.Recoverable != nil && !m.Recoverable.Good:
		return membersSeen
	}
	return membersRest
}

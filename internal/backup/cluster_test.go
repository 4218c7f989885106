// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// While backups are declared, the reports of a cluster's backup pods determine the status, the condition and the metrics.
func TestCluster(t *testing.T) {
	t.Parallel()
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Unix(1_800_000_000+int64(minute)*60, 0)) }
	pod := func(label string, minute int, code int32, message string) *corev1.Pod {
		end := &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: at(minute)}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{object.LabelBackup: label}}, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: end}}}}}
	}
	var conditions []metav1.Condition
	var status *backupv1.ClusterBackupStatus
	etcd := Cluster{Declared: &backupv1.ClusterBackup{Schedule: "30 4 * * *", TimeZone: "Europe/Berlin"}, Part: "etcd"}
	parked := etcd
	parked.IsParked = true
	for i, step := range []struct {
		of     Cluster
		pods   []*corev1.Pod
		id     string
		reason string
		since  metav1.Time // time in the metrics
		now    int         // minute of the observation
	}{
		{etcd, nil, "", backupv1.ReasonNoBackup, at(0), 0},
		{etcd, []*corev1.Pod{pod("etcd-restore", 1, 0, `{"ok":true,"id":"x"}`)}, "", backupv1.ReasonNoBackup, at(0), 1},
		{etcd, []*corev1.Pod{pod("etcd", 2, 0, `{"ok":true,"id":"a"}`)}, "a", backupv1.ReasonBackupSucceeded, at(2), 2},
		{etcd, nil, "a", backupv1.ReasonBackupSucceeded, at(2), 3},
		{etcd, []*corev1.Pod{pod("etcd", 5, 22, `{"reason":"StoreFull","message":"m"}`)}, "a", "StoreFull", at(2), 4},
		{etcd, nil, "a", "StoreFull", at(2), 5}, // the pod with the report was deleted
		{etcd, []*corev1.Pod{pod("etcd", 6, 0, `{"ok":true,"id":"b"}`)}, "b", backupv1.ReasonBackupSucceeded, at(6), 6},
		{etcd, nil, "b", backupv1.ReasonBackupSucceeded, at(6), 6 + 27*60}, // the night of the change to winter time is an hour longer
		{etcd, nil, "b", backupv1.ReasonBackupOverdue, at(6), 6 + 28*60},
		{parked, nil, "b", backupv1.ReasonBackupSucceeded, at(6), 6 + 28*60},
		{Cluster{Part: "etcd"}, nil, "", "", metav1.Time{}, 6 + 28*60},
	} {
		status = step.of.Report(status, Seen{Pods: step.pods}, reconcile.Conditions{List: &conditions, Now: at(step.now)})
		c, shown := meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy), step.of.Summary(status, conditions)
		if step.reason == "" {
			assert.Assert(t, status == nil && c == nil && shown == nil)
			continue
		}
		assert.Equal(t, status.LastID, step.id, "step %d", i)
		assert.Equal(t, c.Reason, step.reason, "step %d", i)
		assert.Equal(t, c.Status == metav1.ConditionTrue, step.reason == backupv1.ReasonBackupSucceeded, "step %d", i)
		assert.Assert(t, c.Message != "")
		assert.Equal(t, shown.LastSuccessful, step.since.Time, "step %d", i)
		assert.Equal(t, shown.Every > 0, !step.of.IsParked, "step %d", i)
		assert.Assert(t, step.of.IsParked || shown.Every == 25*time.Hour, "step %d", i)
	}
}

// If a Job has no running pod, BackupHealthy is false, even if earlier backups succeeded. A Job whose working container
// has ended while another container still runs is deleted.
func TestJobsThatDoNotStartOrEnd(t *testing.T) {
	t.Parallel()
	var conditions []metav1.Condition
	of := Cluster{Declared: &backupv1.ClusterBackup{}, Part: "etcd"}
	earlier := metav1.NewTime(time.Unix(1000, 0))
	known := &backupv1.ClusterBackupStatus{LastSuccessful: &earlier, LastID: "a"}
	seen := Seen{Jobs: []Unfinished{{Name: "works"}, {Name: "refused", Stuck: "exceeded quota: tiny"}}}
	of.Report(known, seen, reconcile.Conditions{List: &conditions, Now: metav1.Now()})
	c := meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy)
	assert.Equal(t, c.Reason, backupv1.ReasonPodNotStarting)
	assert.Equal(t, c.Message, "Job refused does not start: exceeded quota: tiny")
	assert.Equal(t, len(EndHeld(Reader{}, "a", seen.Jobs)), 0)
	held := append(seen.Jobs, Unfinished{Name: "held", IsHeld: true})
	assert.Assert(t, is.Contains(EndHeld(Reader{}, "a", held)[0].Message, "Job held"))
}

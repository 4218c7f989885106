// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The warnings of a cluster's scheduled backup are in its status, condition and summary. A newer backup without warnings removes them.
func TestWarningsOfAClustersBackup(t *testing.T) {
	t.Parallel()
	pod := func(minute int64, message string) []*corev1.Pod {
		end := &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.Unix(minute*60, 0)}
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{object.LabelBackup: "redis"}}, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: end}}}}}}
	}
	of := Cluster{Declared: &backupv1.ClusterBackup{}, Part: "redis"}
	var list []metav1.Condition
	c := reconcile.Conditions{List: &list, Now: metav1.Unix(600, 0)}
	status := of.Report(nil, Seen{Pods: pod(1, `{"ok":true,"id":"a","warnings":["shard 1 was copied from its master"]}`)}, c)
	status = of.Report(status, Seen{}, c)
	assert.DeepEqual(t, status.Warnings, []string{"shard 1 was copied from its master"})
	assert.Equal(t, list[0].Message, "the last backup is a; it has a warning: shard 1 was copied from its master")
	assert.DeepEqual(t, Warnings(status.LastID, status.Warnings, list), []reconcile.Warning{
		{Reason: dsv1.ReasonBackupWarned, Field: "status.backup.warnings", Text: "backup a: it has a warning: shard 1 was copied from its master"},
	})
	status = of.Report(status, Seen{Pods: pod(2, `{"ok":true,"id":"b"}`)}, c)
	assert.Assert(t, status.Warnings == nil && len(Warnings(status.LastID, status.Warnings, list)) == 0)
	assert.Equal(t, list[0].Message, "the last backup is b")
}

// The condition Restored reports the warnings of the restore that created a database. The condition stays after the pod of
// the restore was deleted. It is removed when the spec no longer declares the backup to restore.
func TestWarningsOfARestore(t *testing.T) {
	t.Parallel()
	pod := func(container, message string, code int32) []*corev1.Pod {
		end := &corev1.ContainerStateTerminated{Message: message, ExitCode: code, FinishedAt: metav1.NewTime(time.Unix(60, 0))}
		return []*corev1.Pod{{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "d3os-agent"}, {Name: container, State: corev1.ContainerState{Terminated: end}}}}}}
	}
	const warned = `{"ok":true,"id":"a","warnings":["event b.c stays disabled","view b.d is broken"]}`
	for name, pods := range map[string][]*corev1.Pod{
		"none": nil, "failed": pod(containerRestore, warned, 1), "another container": pod("d3os-guard", warned, 0), "no warning": pod(containerRestore, `{"ok":true,"id":"a"}`, 0),
	} {
		var list []metav1.Condition
		Restored{IsDeclared: true, Pods: pods}.Set(reconcile.Conditions{List: &list})
		assert.Equal(t, len(list), 0, name)
	}
	var list []metav1.Condition
	c := reconcile.Conditions{List: &list}
	Restored{IsDeclared: true, Pods: pod(containerRestore, warned, 0)}.Set(c)
	Restored{IsDeclared: true, Pods: pod(containerRestore, `{"ok":true}`, 0)}.Set(c) // the pod was created again
	found := meta.FindStatusCondition(list, dsv1.ConditionRestored)
	assert.Equal(t, found.Reason+": "+found.Message, "BackupWarned: the database began with backup a; it has 2 warnings; the first: event b.c stays disabled")
	assert.Equal(t, len(Warnings("", nil, list)), 1)
	Restored{}.Set(c)
	assert.Equal(t, len(list), 0)
}

// A status has all warnings. The messages of conditions and events have the beginning of the first one.
func TestLongWarningsAreSummarized(t *testing.T) {
	t.Parallel()
	long := "dumps round FLOAT columns (400): " + strings.Repeat("`a`.`b`, ", 300)
	short := "it has 2 warnings; the first: " + strings.TrimRight(string([]rune(long)[:199]), " ,") + "…"
	var list []metav1.Condition
	v := Verdict{Good: true, Reason: backupv1.ReasonBackupSucceeded, Message: "the last backup is a", Warnings: []string{long, "b"}}
	v.Set(reconcile.Conditions{List: &list}, dsv1.ConditionBackupHealthy)
	assert.Equal(t, list[0].Message, "the last backup is a; "+short)
	assert.Equal(t, Warnings("a", v.Warnings, nil)[0].Text, "backup a: "+short)
}

// In a pod with more than three containers, Kubernetes cuts the termination message. The result is read nevertheless, unless a field before the
// warnings is cut.
func TestCutTerminationMessages(t *testing.T) {
	t.Parallel()
	result := contract.Result{Command: "backup", OK: true, ID: "a", Rows: 7, Seconds: 1.5, Warnings: []string{"é\u0001\"\\", "☃,]", "b"}}
	whole, err := json.Marshal(result)
	assert.NilError(t, err)
	begin := strings.Index(string(whole), `["`)
	for end := range len(whole) {
		read := Read(string(whole[:end]))
		if end <= begin {
			assert.DeepEqual(t, read, contract.Result{})
			continue
		}
		assert.Equal(t, read.ID, "a", "%s", whole[:end])
		assert.Equal(t, read.Rows, int64(7))
		n := len(read.Warnings) - 1
		assert.Equal(t, read.Warnings[n], "Kubernetes has cut the warnings: the last line of the log has all of them")
		for i, text := range read.Warnings[:n] {
			part, isCut := strings.CutSuffix(text, "…")
			assert.Assert(t, part == result.Warnings[i] || isCut && i == n-1 && strings.HasPrefix(result.Warnings[i], part), "%q", text)
		}
	}
	assert.DeepEqual(t, Read(string(whole)), result)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// scheduled makes the Job that the CronJob for backups would make now.
func (s *scene) scheduled(name string) *batchv1.Job {
	s.Helper()
	cron := harness.Lookup[*batchv1.CronJob](s.Journal, "db-backup")
	job := (&agentjob.Source{Name: cron.Name, UID: cron.UID, Template: cron.Spec.JobTemplate}).Job(name, s.Namespace)
	s.Must(suite.API.Create(s.Ctx, job))
	return job
}

// healthy waits until the DataService's condition BackupHealthy has a reason, and returns its message.
func (s *scene) healthy(status metav1.ConditionStatus, reason string) (message string) {
	s.Helper()
	s.Until(fmt.Sprintf("BackupHealthy is %s: %s", status, reason), func() error {
		ds := harness.Lookup[*dsv1.DataService](s.Journal, platform)
		c := meta.FindStatusCondition(ds.Status.Conditions, backupv1.ConditionBackupHealthy)
		if c != nil {
			message = c.Message
		}
		return stage.Unless(c != nil && c.Status == status && c.Reason == reason, fmt.Sprintf("it is %+v", c))
	})
	return message
}

// A Job whose pod a quota refuses, or that is suspended, is named within a minute: in the DataBackup, and in BackupHealthy.
func TestJobsThatCannotStartSayWhy(t *testing.T) {
	s := newScene(t)
	s.start()
	s.declare()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "no-pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	s.Must(suite.API.Create(s.Ctx, quota))
	s.back(name)
	b := s.has(name, backupv1.PhaseRunning, backupv1.ReasonPodNotStarting)
	s.scheduled("by-schedule")
	for _, message := range []string{b.Status.Message, s.healthy(metav1.ConditionFalse, backupv1.ReasonPodNotStarting)} {
		if at := strings.Index(message, "exceeded quota: no-pods"); at < 0 || at > 60 {
			t.Errorf("the quota is not named at once: %s", message)
		}
	}
	s.Must(suite.API.Delete(s.Ctx, quota))
	s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)

	job := s.scheduled("suspended")
	s.Must(suite.API.Patch(s.Ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))))
	if message := s.healthy(metav1.ConditionFalse, backupv1.ReasonPodNotStarting); !strings.Contains(message, "Job suspended does not start: it is suspended") {
		t.Error(message)
	}
	s.Must(suite.API.Patch(s.Ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`))))
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
}

// A container that never ends, as a mesh adds it, changes nothing of what is known of a backup, and does not keep the next one from being
// made: the Job of the CronJob goes.
func TestASidecarThatNeverEnds(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	sidecar := fields{"name": "istio-proxy", "image": "example/agent:v1", "command": []any{"/agent", "proxy"}}
	s.declare(fields{"mysql": fields{"backup": fields{"podTemplate": fields{"spec": fields{"containers": []any{sidecar}}}}}})
	s.back(name)
	b := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	if !strings.Contains(b.Status.Message, "its pod does not end, because of istio-proxy") || b.Status.ID == "" {
		t.Errorf("status %+v", b.Status)
	}
	job := s.scheduled("by-schedule")
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
	s.Eventually("the Job is gone", func() bool { return harness.Lookup[*batchv1.Job](s.Journal, job.Name) == nil })
	s.healthy(metav1.ConditionTrue, backupv1.ReasonBackupSucceeded)
	if own := harness.Lookup[*batchv1.Job](s.Journal, name); own == nil || ptr.Deref(own.Spec.Suspend, false) {
		t.Errorf("the DataBackup's Job is %+v", own)
	}
}

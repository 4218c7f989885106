// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	platform = stage.Platform
	store    = "backups"
	name     = "before-upgrade"
)

type fields = harness.Fields

// scene is a namespace with running pods.
type scene struct {
	*stage.Stage

	pods *emulator.Emulator
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{Stage: suite.New(t)}
	self, err := os.Executable()
	s.Must(err)
	s.pods, err = emulator.Start(s.Ctx, suite.Config, emulator.Options{Namespace: s.Namespace, Images: map[string]emulator.Image{
		"example/mysql": {}, "example/agent": {Executables: map[string]string{"/agent": self}},
	}})
	s.Must(err)
	t.Cleanup(func() { s.Must(s.pods.Stop()) })
	s.Claim(store)
	return s
}

// start starts an operator that is configured with the agent's image.
func (s *scene) start() *stage.Operator {
	s.Helper()
	return s.through(fault.New())
}

// through starts an operator that sends its requests through p, which can inject faults.
func (s *scene) through(p *fault.Process) *stage.Operator {
	s.Helper()
	return s.Start(func(config *rest.Config, options *manager.Options) {
		config.Wrap(p.Wrap)
		options.Images = map[string]string{"agent": "example/agent:v1"}
	})
}

// declare creates a DataService without a running database, and waits for the CronJob of its backups.
func (s *scene) declare(changes ...fields) {
	s.Helper()
	ds := &unstructured.Unstructured{Object: fields{
		"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": platform},
		"spec": fields{"mysql": fields{
			"name": "db", "image": "example/mysql:5.7", "replica": int64(0), "backup": fields{"destination": fields{"claim": fields{"name": store}}},
		}},
	}}
	s.Create(harness.With(ds, changes...))
	s.Eventually("the CronJob", func() bool { return harness.Lookup[*batchv1.CronJob](s.Journal, "db-backup") != nil })
}

// back creates a DataBackup.
func (s *scene) back(name string) {
	s.Helper()
	s.Must(suite.API.Create(s.Ctx, &backupv1.DataBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       backupv1.DataBackupSpec{Of: backupv1.BackupSource{Name: platform}},
	}))
}

// has waits until a DataBackup has a phase and a reason, and returns it.
func (s *scene) has(name string, phase backupv1.Phase, reason string) (found *backupv1.DataBackup) {
	s.Helper()
	s.Until(fmt.Sprintf("%s: %s", phase, reason), func() error {
		found = harness.Lookup[*backupv1.DataBackup](s.Journal, name)
		return stage.Unless(found != nil && found.Status.Phase == phase && found.Status.Reason == reason, fmt.Sprintf("it is %+v", found))
	})
	return found
}

// folder returns the path of the store on this machine.
func (s *scene) folder() string {
	s.Helper()
	folder, err := s.pods.VolumeFolder(s.Ctx, store)
	s.Must(err)
	return folder
}

// runs returns the source of each backup that ran.
func (s *scene) runs() []string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder(), fileRuns))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.Must(err)
	return strings.Fields(string(text))
}

// A DataBackup creates one Job from the declaration in the DataService, and reports the Job's result. Deleting the DataBackup deletes
// the Job, but nothing in the store.
func TestABackupOnDemand(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.back(name)
	s.has(name, backupv1.PhasePending, backupv1.ReasonSourceNotFound)
	s.declare()
	b := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	status := b.Status
	if status.ID != "20260102T150405Z-0a1b2c3d" || status.Bytes != 73400320 || status.StoredBytes != 13002342 || status.Tables != 42 ||
		status.Rows != 120000 || status.Size != "12.4 MiB" || status.Duration != "5s" || status.ServerVersion != "5.7.44" || len(status.Warnings) != 1 ||
		status.Position == nil || status.Position.File != "binlog.000042" || status.Position.Offset != 1547 ||
		status.StartedAt == nil || status.CompletedAt == nil || !meta.IsStatusConditionTrue(status.Conditions, backupv1.ConditionReady) {
		t.Errorf("status %+v", status)
	}
	if runs := s.runs(); len(runs) != 1 || runs[0] != s.Namespace+"/"+platform+"/mysql" {
		t.Errorf("runs %v", runs)
	}
	job := harness.Lookup[*batchv1.Job](s.Journal, name)
	if job == nil || !metav1.IsControlledBy(job, b) {
		t.Fatalf("the Job is %+v", job)
	}
	s.Must(suite.API.Delete(s.Ctx, b))
	s.Eventually("the Job is deleted", func() bool { return harness.Lookup[*batchv1.Job](s.Journal, name) == nil })
	if runs := s.runs(); len(runs) != 1 {
		t.Errorf("runs %v", runs)
	}
	// A tool that restores the objects of a cluster creates the DataBackup again, without its status. Such a copy must
	// not run a second backup.
	b.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Annotations: b.Annotations}
	b.Status = backupv1.DataBackupStatus{}
	s.Must(suite.API.Create(s.Ctx, b))
	s.has(name, backupv1.PhaseFailed, backupv1.ReasonCopied)
	if job := harness.Lookup[*batchv1.Job](s.Journal, name); job != nil || len(s.runs()) != 1 {
		t.Errorf("the copy created Job %+v; runs %v", job, s.runs())
	}
}

// The status shows the agent's error message. The Job makes only one attempt if a second attempt cannot succeed. The message stays when
// the Job is deleted, and when the operator is replaced.
func TestAFailureSaysWhy(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	s.declare()
	s.back("first") // creates the volume
	s.has("first", backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	s.Must(os.WriteFile(filepath.Join(s.folder(), fileFail), nil, 0o600))
	s.back(name)
	b := s.has(name, backupv1.PhaseFailed, "AccessDenied")
	if !strings.Contains(b.Status.Message, "refused user d3os_backup") || !meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionStalled) {
		t.Errorf("status %+v", b.Status)
	}
	if runs := s.runs(); len(runs) != 2 {
		t.Errorf("runs %v", runs)
	}
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*batchv1.Job](s.Journal, name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	op.Stop()
	s.start()
	s.back("last") // the new operator reconciles this backup after the others
	s.has("last", backupv1.PhaseFailed, "AccessDenied")
	if again := s.has(name, backupv1.PhaseFailed, "AccessDenied"); again.ResourceVersion != b.ResourceVersion {
		t.Errorf("the status was written again: %+v", again.Status)
	}
	if runs := s.runs(); len(runs) != 3 {
		t.Errorf("runs %v", runs)
	}
}

// A Job of another owner does not count as the backup's Job.
func TestAnothersJob(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.declare()
	other := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	suspend := true
	other.Spec.Suspend = &suspend
	other.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "example/agent:v1"}}}
	s.Must(suite.API.Create(s.Ctx, other))
	s.back(name)
	s.has(name, backupv1.PhasePending, backupv1.ReasonJobConflict)
	s.Must(suite.API.Delete(s.Ctx, other, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// Backups are the kinds that a suite's journal follows besides its own to use BackUp and Lose.
var Backups = []client.ObjectList{&backupv1.DataBackupList{}, &batchv1.JobList{}, &batchv1.CronJobList{}}

// Claim creates a claim that many pods may have at a time.
func (s *Stage) Claim(name string) {
	s.Helper()
	s.Must(s.Suite.API.Create(s.Ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}))
}

// BackUp has a resource backed up by a DataBackup, and returns its status when it has ended.
func (s *Stage) BackUp(called, kind, of string) backupv1.DataBackupStatus {
	s.Helper()
	b := &backupv1.DataBackup{ObjectMeta: metav1.ObjectMeta{Name: called}}
	s.CreateWith(b, &b.Spec, fmt.Sprintf("{of: {kind: %s, name: %s}}", kind, of))
	s.Until("the end of "+called, func() error {
		s.Read(b)
		if b.Status.Phase != backupv1.PhaseSucceeded && b.Status.Phase != backupv1.PhaseFailed {
			return fmt.Errorf("%s: %s", b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	return b.Status
}

// IsBackedUp waits until the status of a cluster has a backup as its last, and says that backups are well.
func (s *Stage) IsBackedUp(id string, status func() (*backupv1.ClusterBackupStatus, []metav1.Condition)) {
	s.Helper()
	s.Until("the status tells of the backup", func() error {
		backup, conditions := status()
		if backup == nil || backup.LastID != id || backup.LastSuccessful == nil || !meta.IsStatusConditionTrue(conditions, backupv1.ConditionBackupHealthy) {
			return fmt.Errorf("%+v, %+v", backup, meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy))
		}
		return nil
	})
}

// Lose deletes a resource with all that it leaves behind: what has its name as a part of its own.
func (s *Stage) Lose(resource client.Object) {
	s.Helper()
	left := func() []client.Object {
		var all []client.Object
		for _, o := range s.All() {
			if strings.Contains(o.GetName(), resource.GetName()) {
				all = append(all, o)
			}
		}
		return all
	}
	s.Must(s.Suite.API.Delete(s.Ctx, resource))
	s.Until("the pods go", func() error {
		for _, o := range left() {
			if _, isPod := o.(*corev1.Pod); isPod {
				return errors.New(o.GetName() + " is there")
			}
		}
		return nil
	})
	for _, o := range left() {
		switch o.(type) {
		case *corev1.PersistentVolumeClaim, *corev1.Secret, *corev1.ConfigMap:
			s.Must(client.IgnoreNotFound(s.Suite.API.Delete(s.Ctx, o)))
		}
	}
	s.Until("the data goes", func() error {
		for _, o := range left() {
			return errors.New(harness.IDOf(o) + " is there")
		}
		return nil
	})
}

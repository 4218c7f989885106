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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// Platform is the name of the DataService in tests of other kinds.
const Platform = "platform"

// NewPlatform returns a DataService with a spec in YAML.
func (s *Stage) NewPlatform(spec string) *unstructured.Unstructured {
	s.Helper()
	ds := &unstructured.Unstructured{Object: harness.Fields{}}
	s.Must(yaml.Unmarshal([]byte("spec: "+spec), &ds.Object))
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(Platform)
	return ds
}

// ChangePlatform patches the spec of the DataService (JSON merge patch in YAML), and returns its generation.
func (s *Stage) ChangePlatform(spec string) int64 {
	s.Helper()
	fields := harness.Fields{}
	s.Must(yaml.Unmarshal([]byte(spec), &fields))
	return s.Change(Platform, fields)
}

// Become patches the spec of the DataService and waits until it is ready.
func (s *Stage) Become(spec string) {
	s.Helper()
	generation := s.ChangePlatform(spec)
	s.Until("ready after the change", func() error { return s.IsReady(Platform, generation) })
}

// Hibernate sets spec.hibernate, and waits until the DataService has no pods. It then wakes the DataService, and waits until it is ready.
func (s *Stage) Hibernate() {
	s.Helper()
	generation := s.ChangePlatform("{hibernate: true}")
	s.Until("hibernated", func() error {
		ds := s.DataService(Platform)
		return Unless(ds.Status.ObservedGeneration == generation && ds.Status.Phase == dsv1.PhaseHibernated, string(ds.Status.Phase)+": "+ds.Status.Message)
	})
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		s.Errorf("the DataService hibernates, and has pod %s", pod.Name)
	}
	s.Become("{hibernate: false}")
}

// DeletePlatform deletes the DataService.
func (s *Stage) DeletePlatform() {
	s.Helper()
	s.Must(s.Suite.API.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: Platform}}))
}

// Stalls waits until the DataService is stalled for a reason, with these words in the message.
func (s *Stage) Stalls(reason string, words ...string) {
	s.Helper()
	s.Until("it is told", func() error {
		return harness.HasCondition(s.DataService(Platform), dsv1.ConditionStalled, metav1.ConditionTrue, reason, words...)
	})
}

// Component returns the status of a component of the DataService.
func (s *Stage) Component(name string) dsv1.ComponentStatus {
	if ds := s.DataService(Platform); ds != nil {
		for _, c := range ds.Status.Components {
			if c.Name == name {
				return c
			}
		}
	}
	return dsv1.ComponentStatus{}
}

// AwaitsThirdParty waits until the status reports that a component is a third party, and that the third party does not answer.
func (s *Stage) AwaitsThirdParty(component string) {
	s.Helper()
	s.Until("the status reports that the third party does not answer", func() error {
		c := s.Component(component)
		return Unless(c.Kind == "ThirdParty" && c.Phase != dsv1.PhaseRunning, fmt.Sprintf("%+v", c))
	})
}

// WaitsFor fails the test if an object of a component was created before isReady returned true for a change.
func (s *Stage) WaitsFor(component string, isReady func(harness.Change) bool) {
	s.Helper()
	ready := false
	for _, c := range s.Since(0) {
		ready = ready || isReady(c)
		if c.Object.GetLabels()["app.kubernetes.io/name"] == component && !ready {
			s.Errorf("%s was created before its dependency was ready", c.ID)
		}
	}
	if !ready {
		s.Errorf("the dependency of %s was never ready", component)
	}
}

// Backups are the kinds that a suite's journal must watch for BackUp and Lose, in addition to the suite's kinds.
var Backups = []client.ObjectList{&backupv1.DataBackupList{}, &batchv1.JobList{}, &batchv1.CronJobList{}}

// Claim creates a claim that several pods can mount at the same time.
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

// BackUp creates a DataBackup of a resource, waits until it has ended, and returns its status.
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

// IsBackedUp waits until the status of a cluster names a backup as the last one, and a condition reports that backups work.
func (s *Stage) IsBackedUp(id string, status func() (*backupv1.ClusterBackupStatus, []metav1.Condition)) {
	s.Helper()
	s.Until("the status reports the backup", func() error {
		backup, conditions := status()
		if backup == nil || backup.LastID != id || backup.LastSuccessful == nil || !meta.IsStatusConditionTrue(conditions, backupv1.ConditionBackupHealthy) {
			return fmt.Errorf("%+v, %+v", backup, meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy))
		}
		return nil
	})
}

// Lose deletes a resource and all objects with names that contain its name.
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

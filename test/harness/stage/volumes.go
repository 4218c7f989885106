// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/harness"
)

// RigidClass creates a storage class that cannot expand volumes, with free volumes of a size, and returns the name of the class.
func (s *Stage) RigidClass(size string, volumes int) string {
	s.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid-" + s.Namespace}, Provisioner: "kubernetes.io/no-provisioner"}
	s.Must(s.Suite.API.Create(s.Ctx, class))
	for i := range volumes {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class.Name, i)}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: fmt.Sprintf("/nonexistent/%s/%d", class.Name, i)}},
		}}
		s.Must(s.Suite.API.Create(s.Ctx, volume))
	}
	return class.Name
}

// SizeOf returns the size that a claim requests.
func (s *Stage) SizeOf(claim string) string {
	return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim).Spec.Resources.Requests.Storage().String()
}

// AwaitSize waits until a claim requests a size.
func (s *Stage) AwaitSize(claim, size string) {
	s.Helper()
	s.Until("claim "+claim+" requests "+size, func() error { return Unless(s.SizeOf(claim) == size, "it requests "+s.SizeOf(claim)) })
}

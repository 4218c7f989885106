// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// onVolumes returns a scene whose volumes have the sizes of their claims.
func onVolumes(t *testing.T) *scene {
	t.Helper()
	harness.Long(t)
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	return newScene(t, func(o *emulator.Options) { o.Bounded = true })
}

// fill fills the volume of a member, and ends its etcd, which cannot start again.
func (s *scene) fill(ordinal int) {
	s.Helper()
	s.Must(s.FillVolume(s.Ctx, s.claim(ordinal)))
	s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
}

// size returns the requested size of a member's volume.
func (s *scene) size(ordinal int) string {
	s.Helper()
	return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, s.claim(ordinal)).Spec.Resources.Requests.Storage().String()
}

// A full volume grows while its etcd cannot run. Then etcd starts with its data. The volume does not grow again.
func TestFullVolumeGrows(t *testing.T) {
	s := onVolumes(t)
	s.start()
	s.create("{replicas: 1, storage: 256Mi, storageAutoGrow: {limit: 1Gi, by: 50%}}")
	s.ready(1)
	ids, cluster := s.ids(), s.get().Status.ClusterID
	s.fill(0)
	s.Until("the volume has grown", func() error { return stage.Unless(s.size(0) == "384Mi", "it has "+s.size(0)) })
	s.ready(1)
	s.isAsBefore(cluster, ids)
	if s.size(0) != "384Mi" {
		t.Errorf("the volume has room, and has grown again to %s", s.size(0))
	}
}

// A full volume does not grow if its class cannot expand volumes, and the status names the class.
func TestFullVolumeOfAClassThatCannotGrow(t *testing.T) {
	s := onVolumes(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid-" + s.Namespace}, Provisioner: "kubernetes.io/no-provisioner"}
	volume := &corev1.PersistentVolume{ObjectMeta: class.ObjectMeta, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("256Mi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + class.Name}},
	}}
	for _, o := range []client.Object{class, volume} {
		s.Must(suite.API.Create(s.Ctx, o))
	}
	s.start()
	s.create("{replicas: 1, storage: 256Mi, storageClassName: " + class.Name + ", storageAutoGrow: {limit: 1Gi, by: 50%}}")
	s.ready(1)
	s.fill(0)
	s.Until("the status names the class", func() error {
		return harness.Mentions(s.get().Status.Message, s.claim(0), "VolumeFull", "storage class "+class.Name+" cannot expand volumes")
	})
	if s.size(0) != "256Mi" {
		t.Errorf("the claim requests %s", s.size(0))
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"os"
	"syscall"
	"testing"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
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

// A full volume grows while its etcd cannot run. Then etcd starts with its data. The volume does not grow again.
func TestFullVolumeGrows(t *testing.T) {
	s := onVolumes(t)
	s.start()
	s.create("{replicas: 1, storage: 256Mi, storageAutoGrow: {limit: 1Gi, by: 50%}}")
	s.ready(1)
	ids, cluster := s.ids(), s.get().Status.ClusterID
	s.fill(0)
	s.AwaitSize(s.claim(0), "384Mi")
	s.ready(1)
	s.isAsBefore(cluster, ids)
	if size := s.SizeOf(s.claim(0)); size != "384Mi" {
		t.Errorf("the volume has room, and has grown again to %s", size)
	}
}

// A full volume does not grow if its class cannot expand volumes, and the status names the class.
func TestFullVolumeOfAClassThatCannotGrow(t *testing.T) {
	s := onVolumes(t)
	class := s.RigidClass("256Mi", 1)
	s.start()
	s.create("{replicas: 1, storage: 256Mi, storageClassName: " + class + ", storageAutoGrow: {limit: 1Gi, by: 50%}}")
	s.ready(1)
	s.fill(0)
	s.Until("the status names the class", func() error {
		return harness.Mentions(s.get().Status.Message, s.claim(0), "VolumeFull", "storage class "+class+" cannot expand volumes")
	})
	if size := s.SizeOf(s.claim(0)); size != "256Mi" {
		t.Errorf("the claim requests %s", size)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

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
	harness.FullForm(t, full)
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s := newScene(t, func(o *emulator.Options) { o.Bounded = true })
	s.start()
	return s
}

// The full volume of a replica, and then of the primary, grows while its server cannot run. Then the server starts with its data, and no
// acknowledged write is lost.
func TestFullVolumeGrows(t *testing.T) {
	s := onVolumes(t)
	s.create("replicas: 3\nstorage: {size: 1Gi, autoGrow: {limit: 4Gi, by: 50%}}")
	s.ready(3)
	writer := s.write()
	for _, member := range []func() int{func() int { return (s.primary() + 1) % 3 }, s.primary} {
		ordinal := member()
		from := s.Mark()
		s.Must(s.FillVolume(s.Ctx, claim(ordinal)))
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
		s.AwaitSize(claim(ordinal), "1536Mi")
		s.unready(from)
		s.ready(3)
	}
	writer.kept(3)
}

// The full volume of a replica does not grow if its class cannot expand volumes, and the status names the class. The other members serve.
func TestFullVolumeOfAClassThatCannotGrow(t *testing.T) {
	s := onVolumes(t)
	class := s.RigidClass("1Gi", 3)
	s.create("replicas: 3\nstorage: {size: 1Gi, storageClassName: " + class + ", autoGrow: {limit: 4Gi, by: 50%}}")
	s.ready(3)
	writer := s.write()
	const ordinal = 2 // kept compares the other two members
	s.Must(s.FillVolume(s.Ctx, claim(ordinal)))
	s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
	s.Until("the status names the class", func() error {
		return harness.Mentions(s.get().Status.Message, claim(ordinal), "VolumeFull", "storage class "+class+" cannot expand volumes")
	})
	if size := s.SizeOf(claim(ordinal)); size != "1Gi" {
		t.Errorf("the claim requests %s", size)
	}
	writer.kept(2)
}

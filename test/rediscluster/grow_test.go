// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

const (
	filledPod   = name + "-0-0"
	filledClaim = "data-" + filledPod
)

// fillVolume starts a cluster of one pod with more settings of its storage, fills its volume, and ends its Redis, which cannot start again.
func fillVolume(t *testing.T, storage func(s *scene) string) *scene {
	t.Helper()
	harness.Long(t)
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s := newScene(t, func(o *emulator.Options) { o.Bounded = true })
	s.Start()
	s.create("{replicas: 1, repository: redis, storage: {size: 64Mi, " + storage(s) + "autoGrow: {limit: 1Gi, by: 50%}}}")
	s.ready(1)
	s.do(filledPod, "SET", "kept", "value")
	s.Must(s.FillVolume(s.Ctx, filledClaim))
	s.Must(s.Kill(filledPod, syscall.SIGKILL, "redis"))
	return s
}

// A full volume grows while its Redis cannot run. Then Redis starts with its data.
func TestFullVolumeGrows(t *testing.T) {
	s := fillVolume(t, func(*scene) string { return "" })
	s.AwaitSize(filledClaim, "96Mi")
	s.ready(1)
	if got := fmt.Sprint(s.do(filledPod, "GET", "kept")); got != "value" {
		t.Errorf("the key is %q", got)
	}
	s.do(filledPod, "SET", "written", "later")
}

// A full volume does not grow if its class cannot expand volumes, and the status names the class.
func TestFullVolumeOfAClassThatCannotGrow(t *testing.T) {
	harness.FullForm(t, full)
	var class string
	s := fillVolume(t, func(s *scene) string {
		class = s.RigidClass("64Mi", 1)
		return "storageClassName: " + class + ", "
	})
	s.Until("the status names the class", func() error {
		return harness.Mentions(s.get().Status.Message, filledClaim, "VolumeFull", "storage class "+class+" cannot expand volumes")
	})
	if size := s.SizeOf(filledClaim); size != "64Mi" {
		t.Errorf("the claim requests %s", size)
	}
}

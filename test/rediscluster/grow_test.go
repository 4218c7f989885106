// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A full volume grows while its Redis cannot run. Then Redis starts with its data.
func TestFullVolumeGrows(t *testing.T) {
	harness.Long(t)
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s := newScene(t, func(o *emulator.Options) { o.Bounded = true })
	s.Start()
	s.create("{replicas: 1, repository: redis, storage: {size: 64Mi, autoGrow: {limit: 1Gi, by: 50%}}}")
	s.ready(1)
	const pod = name + "-0-0"
	s.do(pod, "SET", "kept", "value")
	s.Must(s.FillVolume(s.Ctx, "data-"+pod))
	s.Must(s.Kill(pod, syscall.SIGKILL, "redis"))
	size := func() string {
		return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "data-"+pod).Spec.Resources.Requests.Storage().String()
	}
	s.Until("the volume has grown", func() error { return stage.Unless(size() == "96Mi", "it has "+size()) })
	s.ready(1)
	if got := fmt.Sprint(s.do(pod, "GET", "kept")); got != "value" {
		t.Errorf("the key is %q", got)
	}
	s.do(pod, "SET", "written", "later")
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The full volume of a replica, and then of the primary, grows while its server cannot run. Then the server starts with its data, and no
// acknowledged write is lost.
func TestFullVolumeGrows(t *testing.T) {
	inFullForm(t)
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s := newScene(t, func(o *emulator.Options) { o.Bounded = true })
	s.start()
	s.create("replicas: 3\nstorage: {size: 1Gi, autoGrow: {limit: 4Gi, by: 50%}}")
	s.ready(3)
	writer := s.write()
	size := func(ordinal int) string {
		return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim(ordinal)).Spec.Resources.Requests.Storage().String()
	}
	for _, member := range []struct {
		role    string
		ordinal func() int
	}{{"a replica", func() int { return (s.primary() + 1) % 3 }}, {"the primary", s.primary}} {
		ordinal := member.ordinal()
		from := s.Mark()
		s.Must(s.FillVolume(s.Ctx, claim(ordinal)))
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "mysql"))
		s.Until("the volume of "+member.role+" has grown", func() error {
			return stage.Unless(size(ordinal) == "1536Mi", "it has "+size(ordinal))
		})
		s.unready(from)
		s.ready(3)
	}
	writer.kept(3)
}

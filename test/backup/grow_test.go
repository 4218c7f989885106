// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A full volume grows while its MariaDB cannot run. Then MariaDB starts with its data.
func TestFullVolumeGrows(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s := newReal(t, func(_ *realScene, o *emulator.Options) { o.Bounded = true })
	s.start()
	s.Create(archived("db", fields{"backup": nil, "storage": fields{"size": "512Mi", "autoGrow": fields{"limit": "2Gi", "by": "50%"}}}))
	s.Ready(platform)
	want := s.fill()
	s.Must(s.pods.FillVolume(s.Ctx, "data-db-0"))
	s.Must(s.pods.Kill("db-0", syscall.SIGKILL, "db"))
	size := func() string {
		return harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "data-db-0").Spec.Resources.Requests.Storage().String()
	}
	s.Until("the volume has grown", func() error { return stage.Unless(size() == "768Mi", "it has "+size()) })
	s.Until("the server is back", func() error { // the status may still show the state before the kill
		_, err := s.ask(s.password("db-credentials", "username"), s.password("db-credentials", "password"), "SELECT 1", "--host="+s.addressOf("db"))
		return err
	})
	if got := s.sql("db", counted); got != want {
		t.Errorf("the database has %q, want %q", got, want)
	}
	s.sql("db", "INSERT INTO app.t (v) VALUES ('later')")
}

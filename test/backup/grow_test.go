// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"os"
	"syscall"
	"testing"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

// fillVolume starts a MariaDB with rows and more settings of its storage, fills its volume, and ends MariaDB, which cannot start again. It
// also returns the checksum of the rows.
func fillVolume(t *testing.T, storage func(s *realScene) fields) (s *realScene, want string) {
	t.Helper()
	harness.Long(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems, which needs root")
	}
	s = newReal(t, func(_ *realScene, o *emulator.Options) { o.Bounded = true })
	s.start()
	settings := fields{"size": "512Mi", "autoGrow": fields{"limit": "2Gi", "by": "50%"}}
	harness.Merge(settings, storage(s))
	s.Create(archived("db", fields{"backup": nil, "storage": settings}))
	s.Ready(platform)
	want = s.fill()
	s.Must(s.pods.FillVolume(s.Ctx, "data-db-0"))
	s.Must(s.pods.Kill("db-0", syscall.SIGKILL, "db"))
	return s, want
}

// A full volume grows while its MariaDB cannot run. Then MariaDB starts with its data.
func TestFullVolumeGrows(t *testing.T) {
	s, want := fillVolume(t, func(*realScene) fields { return nil })
	s.AwaitSize("data-db-0", "768Mi")
	s.Until("the server is back", func() error { // the status may still show the state before the kill
		_, err := s.ask(s.password("db-credentials", "username"), s.password("db-credentials", "password"), "SELECT 1", "--host="+s.addressOf("db"))
		return err
	})
	if got := s.sql("db", counted); got != want {
		t.Errorf("the database has %q, want %q", got, want)
	}
	s.sql("db", "INSERT INTO app.t (v) VALUES ('later')")
}

// A full volume does not grow if its class cannot expand volumes, and the message of mysql names the class.
func TestFullVolumeOfAClassThatCannotGrow(t *testing.T) {
	var class string
	s, _ := fillVolume(t, func(s *realScene) fields {
		class = s.RigidClass("512Mi", 1)
		return fields{"storageClassName": class}
	})
	s.Until("the status names the class", func() error {
		return harness.Mentions(s.DataService(platform).Status.Message, "data-db-0", "VolumeFull", "storage class "+class+" cannot expand volumes")
	})
	if size := s.SizeOf("data-db-0"); size != "512Mi" {
		t.Errorf("the claim requests %s", size)
	}
}

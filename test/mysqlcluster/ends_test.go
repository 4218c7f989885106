// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// If the MySQL of a new image starts and then ends, one pod gets this image, and the status names the member. With the former image, the
// database is well again, and no acknowledged write is lost.
func TestAnImageThatEndsLaterReachesOnePod(t *testing.T) {
	harness.FullForm(t, full)
	const ending = "registry.example.com/ends/mysql"
	s := newScene(t, func(o *emulator.Options) {
		program := o.Images["docker.io/library/mysql"]
		o.Images[ending] = emulator.Image{Rewrite: program.Rewrite, Executables: map[string]string{
			"mysqld": stage.EndsLater(t, program.Executables["mysqld"], 30*time.Second), "mysql": program.Executables["mysql"], "mysqldump": program.Executables["mysqldump"],
		}}
	})
	s.start(func(_ *rest.Config, o *manager.Options) { o.MinReady = 2 * time.Minute })
	s.create("replicas: 3")
	s.ready(3)
	writer := s.write()

	from := s.Mark()
	s.change("{image: '" + ending + ":9.7.4'}")
	s.Until("the failed change is named", func() error {
		return harness.Mentions(s.get().Status.Message, "the server ended: signal: killed", "must be ready for 2m0s without a restart before the next member is restarted")
	})
	s.change("{image: " + image + "}")
	s.ready(3)
	if pods := s.PodsOf(ending, from); len(pods) != 1 {
		t.Errorf("the pods %v have run the image", pods)
	}
	writer.kept(3)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// If the Redis of a new image starts and then ends, one pod gets this image, and the status names that pod. With the former image, the
// cluster is well again.
func TestAnImageThatEndsLaterReachesOnePod(t *testing.T) {
	harness.FullForm(t, full)
	const ending = "registry.example.com/ends"
	s := newScene(t, func(o *emulator.Options) {
		program, err := redistest.Program("redis-server")
		if err != nil {
			t.Fatal(err)
		}
		image := o.Images["redis"]
		o.Images[ending] = emulator.Image{Rewrite: image.Rewrite, Executables: map[string]string{
			"redis-server": stage.EndsLater(t, program, 10*time.Second), "redis-cli": image.Executables["redis-cli"], "redis-check-aof": image.Executables["redis-check-aof"],
		}}
	})
	s.Start(func(_ *rest.Config, o *manager.Options) { o.MinReady = time.Minute })
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()

	from := s.Mark()
	s.change("{repository: " + ending + "}")
	s.says("the latest change of the pods failed on")
	s.change("{repository: redis}")
	s.ready(6)
	if pods := s.PodsOf(ending, from); len(pods) != 1 {
		t.Errorf("the pods %v have run the image", pods)
	}
	s.holds()
}

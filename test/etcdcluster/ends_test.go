// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// If the etcd of a new image starts and then ends, one pod gets this image, and the status names that pod. With the former image, the cluster
// is well again.
func TestAnImageThatEndsLaterReachesOnePod(t *testing.T) {
	harness.FullForm(t, full)
	const ending = "registry.example.com/ends/etcd"
	s := newScene(t, func(o *emulator.Options) {
		program, err := etcdtest.Program(etcdtest.V36)
		if err != nil {
			t.Fatal(err)
		}
		o.Images[ending] = emulator.Image{Executables: map[string]string{"etcd": stage.EndsLater(t, program, 10*time.Second)}}
	})
	s.start(func(_ *rest.Config, o *manager.Options) { o.MinReady = time.Minute })
	s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	cluster, members := s.get().Status.ClusterID, s.ids()

	from := s.Mark()
	s.change("{image: " + ending + "}")
	s.Until("the failed change is named", func() error { return s.says("the latest change of the pods failed on") })
	s.change("{image: null}")
	s.ready(3)
	if pods := s.PodsOf(ending, from); len(pods) != 1 {
		t.Errorf("the pods %v have run the image", pods)
	}
	s.holds()
	s.isAsBefore(cluster, members)
}

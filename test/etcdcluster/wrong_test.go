// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// says returns an error until the status has a text.
func (s *scene) says(text string) error {
	if status := s.get().Status; !strings.Contains(status.Message, text) {
		return fmt.Errorf("%s: %s", status.Phase, status.Message)
	}
	return nil
}

// noneStarts reports whether etcd runs in no pod.
func (s *scene) noneStarts() bool {
	return !slices.ContainsFunc(s.pods(), func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil
	})
}

// A cluster that gets an image which does not exist runs again once the image is right, and no person touches a pod: while the
// other members run, and when no pod has come up since.
func TestWrongImageThenTheRightOne(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	cluster, members := s.get().Status.ClusterID, s.ids()

	s.change("{image: registry.example.com/missing/etcd}")
	s.Until("the cause is named", func() error { return s.says("no program for image") })
	s.change("{image: null}")
	s.ready(3)
	s.holds()

	s.change("{image: registry.example.com/missing/etcd}")
	s.Until("the cause is named", func() error { return s.says("no program for image") })
	for _, pod := range s.pods() { // as when all nodes are drained
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, pod.DeepCopy(), client.GracePeriodSeconds(1))))
	}
	s.Until("no pod has its image", func() error {
		if pods := s.pods(); len(pods) != 3 || !s.noneStarts() {
			return fmt.Errorf("%d pods", len(pods))
		}
		return s.says("no program for image")
	})
	s.change("{image: null}")
	s.ready(3)
	s.holds()
	s.isAsBefore(cluster, members)
}

// A formed cluster keeps its addresses: another mode of TLS is refused before anything changes, and the former one goes on with all data.
func TestTLSModeOfAFormedClusterIsRefused(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 2}")
	s.ready(2)
	s.write()
	cluster, members := s.get().Status.ClusterID, s.ids()
	s.watchdog.mu.Lock()
	s.watchdog.parked = true
	s.watchdog.mu.Unlock()
	s.change("{replicas: 0}")
	s.Until("parked", s.isParked)
	const refused = "spec.tls.mode cannot change to Auto"
	s.change("{tls: {mode: Auto}}")
	s.Until("the change is refused", func() error { return s.says(refused) })
	s.change("{replicas: 2}")
	s.Until("the change stays refused", func() error { return s.says(refused) })
	if pods := s.pods(); len(pods) > 0 {
		t.Errorf("%d pods started", len(pods))
	}
	s.change("{replicas: 0}")
	s.change("{tls: {mode: 'Off'}}")
	s.change("{replicas: 2}")
	s.ready(2)
	s.holds()
	s.isAsBefore(cluster, members)
}

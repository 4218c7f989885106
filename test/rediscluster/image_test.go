// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/harness/stage"
)

// A wrong image for every pod, and then the right one again: the cluster is Running again with its data, and nobody touches a
// pod. The first time the roll stops at the first pod; the second time all pods are gone before, so that no server is reached.
func TestAWrongImageAndTheRightOne(t *testing.T) {
	s := newScene(t)
	s.standing(six)
	wrong := func(pods int) {
		t.Helper()
		s.change("{pod: [{middlewareImage: 'registry.example.com/no/such:1'}]}")
		if pods == 6 {
			s.Until("the StatefulSets ask for it", func() error { return s.waiting(1) })
			for _, pod := range s.pods() {
				s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod.Name}}))
			}
		}
		s.Until("pods have no image", func() error { return s.waiting(pods) })
		s.says("no program for image")
		s.change("{pod: null}")
		t.Logf("whole again after %s", s.ready(6))
		s.holds()
	}
	wrong(1)
	wrong(6)
}

// waiting returns an error unless so many pods wait for their image, and no other pod is there that is not ready.
func (s *scene) waiting(pods int) error {
	found := 0
	for _, pod := range s.pods() {
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == "redis" && c.State.Waiting != nil && c.State.Waiting.Reason != "" && !stage.IsReady(pod) && pod.DeletionTimestamp == nil {
				found++
			}
		}
	}
	return stage.Unless(found == pods, fmt.Sprintf("%d of %d pods wait for their image", found, pods))
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// The sample applies as it is, and is ready with three voters, again and again.
func TestSample(t *testing.T) {
	s := newScene(t)
	s.start()
	runs, bound := 1, patience // other tests are busy beside this one
	if full {
		runs, bound = 20, 30*time.Second
	}
	var all []time.Duration
	for range runs {
		from := s.Mark()
		ec := &etcdv1.EtcdCluster{}
		s.Must(harness.ReadYAML("internal/kinds/etcdcluster/testdata/sample.yaml", ec))
		ec.Namespace = s.Namespace
		s.Must(suite.API.Create(s.Ctx, ec))
		s.Eventually("a pod runs", func() bool {
			pod := s.pod(0)
			return pod != nil && pod.Status.Phase == corev1.PodRunning
		})
		took := s.ready(3)
		all = append(all, took.Round(100*time.Millisecond))
		if took > bound {
			t.Errorf("it took %s", took)
			s.story(from)
		}
		s.write()
		s.holds()
		s.Must(suite.API.Delete(s.Ctx, ec))
		s.goes(3)
		s.Must(suite.API.DeleteAllOf(s.Ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(s.Namespace)))
		s.Until("the claims go", func() error {
			if left := len(harness.Every[*corev1.PersistentVolumeClaim](s.Journal)); left > 0 {
				return fmt.Errorf("%d claims", left)
			}
			return nil
		})
	}
	slices.Sort(all)
	t.Logf("the sample, %d runs: ready with three voters after its first pod ran: %v (bound %s)", runs, all, bound)
}

// goes waits until the cluster is gone, and fails the test unless it leaves its claims.
func (s *scene) goes(claims int) {
	s.Helper()
	s.Until("the cluster goes", func() error {
		for _, o := range s.All() {
			_, isClaim := o.(*corev1.PersistentVolumeClaim)
			if strings.HasPrefix(o.GetName(), name) && !isClaim && o.GetName() != name+"-ca" {
				return fmt.Errorf("%s is there", harness.IDOf(o))
			}
		}
		return nil
	})
	if left := len(harness.Every[*corev1.PersistentVolumeClaim](s.Journal)); left != claims {
		s.Errorf("%d claims are left, and %d should be", left, claims)
	}
}

// A cluster that is deleted leaves its data, and one of the same name takes it up.
func TestTakesUpItsData(t *testing.T) {
	harness.Long(t) // the short form deletes its DataService instead: TestInADataService
	s := newScene(t)
	s.start()
	ec := s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	cluster := s.get().Status.ClusterID
	s.Must(suite.API.Delete(s.Ctx, ec))
	s.goes(3)
	s.create("{replicas: 3}")
	t.Logf("ready again after %.1f s", s.ready(3).Seconds())
	s.holds()
	s.isCluster(cluster)
	s.harmless()
}

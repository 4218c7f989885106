// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// isParked returns the reason why the cluster is not parked, or nil.
func (s *scene) isParked() error {
	rc := s.get()
	if rc.Status.Phase != redisv1.PhaseParked || rc.Status.Ready != "0/0" || !meta.IsStatusConditionTrue(rc.Status.Conditions, redisv1.ConditionReady) || len(s.pods()) > 0 {
		return fmt.Errorf("%d pods: %s, %s: %s", len(s.pods()), rc.Status.Phase, rc.Status.Ready, rc.Status.Message)
	}
	return nil
}

// ids returns the node ids of the pods.
func (s *scene) ids() map[string]string {
	found := map[string]string{}
	for _, i := range s.get().Status.Instances {
		found[i.Name] = i.NodeID
	}
	return found
}

// A cluster of one pod grows to three masters, then to three masters with replicas, and shrinks again. At one and at three pods, a changed
// setting replaces all pods. No key is lost.
func TestSizes(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start()
	s.create("{replicas: 1, repository: redis}")
	s.ready(1)
	s.write()
	for _, c := range []struct {
		change string
		pods   int
		rolls  bool
	}{
		{"{config: {io-threads: '2'}}", 1, true},
		{"{replicas: 3}", 3, false},
		{"{config: {io-threads: '3'}}", 3, true},
		{"{replicas: 6}", 6, false},
		{"{replicas: 3}", 3, false},
		{"{replicas: 1}", 1, false},
	} {
		before := s.uids()
		s.change(c.change)
		s.Until("the pods are replaced", func() error {
			if left := s.remain(before); c.rolls && left > 0 {
				return fmt.Errorf("%d former pods still exist: %s", left, s.get().Status.Message)
			}
			return nil
		})
		t.Logf("%s after %s", c.change, s.ready(c.pods))
		s.holds()
		if notes := s.get().Status.Notes; (len(notes) > 0) != (c.pods < 6) {
			t.Errorf("%d pods, and the notes are %q", c.pods, notes)
		}
	}
	s.quiet()
}

// A cluster under load is parked and starts again, while the operator is killed at each step. The same nodes then have all acknowledged
// writes. A server is killed while the cluster is being parked. The claims stay, although they would be deleted with the resource.
func TestParks(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.standing("{replicas: 6, repository: redis, finalizers: foreground}").Stop()
	before := s.ids()
	m, ledger := mortals(30*time.Minute), s.keep("ledger")
	s.change("{replicas: 0}")
	m.live(s, s.isParked)
	if claims := harness.Every[*corev1.PersistentVolumeClaim](s.Journal); len(claims) != 6 {
		t.Errorf("%d of 6 claims still exist", len(claims))
	}
	for _, set := range harness.Every[*appsv1.StatefulSet](s.Journal) {
		if *set.Spec.Replicas != 0 {
			t.Errorf("%s has %d pods", set.Name, *set.Spec.Replicas)
		}
	}
	s.change("{replicas: 6}")
	m.live(s, func() error { return s.isReady(6) })
	s.agree(6)
	s.Until("all writers write again", ledger.WrittenAll)
	if figures := ledger.Close(); len(figures.Wrong) > 0 {
		t.Errorf("lost: %v", figures.Wrong)
	}
	if after := s.ids(); !maps.Equal(before, after) {
		t.Errorf("the nodes were %v, and now are %v", before, after)
	}
	s.holds()

	s.Start()
	s.inStep()
	master := s.master(1)
	s.change("{replicas: 0}")
	s.Must(s.Kill(master, syscall.SIGKILL, "redis"))
	s.Until("it is parked", s.isParked)
	s.quiet()
	s.change("{replicas: 3}")
	s.Until("three pods serve", func() error { return errors.Join(s.isReady(3), s.check(3)) })
	s.holds()
}

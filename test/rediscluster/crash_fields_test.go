// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
)

// Every field that can change is changed while the operator is killed at every step: those that change together take the
// same steps. With pause and OnDelete nothing is done, so they have tests of their own.
func TestKilledAsFieldsChange(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing("{replicas: 6, repository: redis, storage: {size: 10Gi, storageClassName: simulated}}").Stop()
	spec, pods, m := map[string]any{}, 6, mortals(30*time.Minute)
	kinds := []effect{lives, rolls, grows}
	if !full {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		for _, c := range fieldChanges {
			if c.effect == kind && c.field != "pause" && c.field != "pod.updateStrategy.type" {
				set(t, spec, c.field, c.value)
			}
		}
		if kind == grows {
			pods++
		}
		before := len(s.uids())
		left := m.bring(s, string(kind), pods, kind == rolls, func() { s.Must(s.merge(spec)) })
		if kind != rolls && left != before {
			t.Errorf("%s: %d of %d pods are left", kind, left, before)
		}
	}
	s.sized("20Gi")
	if full && m.Ends["patch persistentvolumeclaims"] == 0 {
		t.Errorf("no life ended as it let a volume grow; they ended at %v", m.Ends)
	}
	s.holds()
}

// sized fails the test unless all claims ask for a size.
func (s *scene) sized(size string) {
	s.Helper()
	for _, claim := range harness.Every[*corev1.PersistentVolumeClaim](s.Journal) {
		if asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]; asks.String() != size {
			s.Errorf("claim %s asks for %s, not %s", claim.Name, asks.String(), size)
		}
	}
}

// A cluster is paused while its pods are being replaced, and the operator is killed at every step before that and after it.
// While it is paused, each operator leaves everything as it is.
func TestKilledAroundPause(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six).Stop()
	before, m := s.uids(), mortals(10*time.Minute)
	ledger := s.keep("ledger")
	s.change("{config: {io-threads: '2'}}")
	m.live(s, func() error {
		if left := s.remain(before); left > len(before)-2 {
			return fmt.Errorf("%d pods are not replaced", left)
		}
		return nil
	})
	s.change("{pause: true, size: medium}")
	began := m.Begun
	m.live(s, func() error { return s.isPaused() })
	if n := m.Begun - began; n != 1 {
		t.Errorf("%d operators ended while the cluster was paused: they wrote; they ended at %v", n-1, m.Ends)
	}
	paused := s.uids()
	s.change("{pause: false}")
	m.live(s, func() error {
		if left := s.remain(paused); left > 0 {
			return fmt.Errorf("%d pods are not replaced", left)
		}
		return s.isReady(6)
	})
	s.agree(6)
	ledger.Close().Nothing(t, "paused on the way")
	s.holds()
}

// isPaused returns nil when the status of the latest generation says that the cluster is paused.
func (s *scene) isPaused() error {
	rc := s.get()
	if rc.Status.ObservedGeneration != rc.Generation {
		return fmt.Errorf("generation %d of %d is observed", rc.Status.ObservedGeneration, rc.Generation)
	}
	return harness.Mentions(rc.Status.Message, "paused")
}

// With OnDelete it is a person who deletes pods. The operator is killed at every step meanwhile: it replaces no pod by itself,
// and it heals the cluster after each one that the person deletes.
func TestKilledAsAPersonDeletesPods(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing("{replicas: 6, repository: redis, pod: [{updateStrategy: {type: OnDelete}}]}").Stop()
	before, m, deleted := s.uids(), mortals(10*time.Minute), 6
	if !full {
		deleted = 1
	}
	s.change("{config: {io-threads: '2'}}")
	m.live(s, func() error { return s.isReady(6) })
	if left := s.remain(before); left != len(before) {
		t.Errorf("the operator replaced %d pods", len(before)-left)
	}
	for _, pod := range s.pods()[:deleted] {
		s.Must(suite.API.Delete(s.Ctx, pod.DeepCopy()))
		m.live(s, func() error {
			if s.remain(before) == len(before) {
				return fmt.Errorf("pod %s is still there", pod.Name)
			}
			return s.isReady(6)
		})
		s.agree(6)
		before = s.uids()
	}
	s.holds()
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"strings"
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
	s.standing("{replicas: 6, repository: redis, storage: {size: 10Gi, storageClassName: simulated}}")
	spec, pods := map[string]any{}, 6
	kinds, skip, within := []effect{lives, rolls, grows}, 0, 30*time.Minute
	if !full {
		kinds, skip, within = kinds[:1], 2, patience
	}
	everywhere := map[string]int{}
	for _, kind := range kinds {
		for _, c := range fieldChanges {
			if c.effect == kind && c.field != "pause" && c.field != "pod.updateStrategy.type" {
				set(t, spec, c.field, c.value)
			}
		}
		if kind == grows {
			pods++
		}
		before, m := s.uids(), &mortal{skip: skip, ends: map[string]int{}}
		ledger := s.keep("ledger-" + strings.ReplaceAll(string(kind), " ", "-"))
		s.Must(s.merge(spec))
		began := time.Now()
		m.live(s, within, func() error {
			if left := s.remain(before); kind == rolls && left > 0 {
				return fmt.Errorf("%d pods are not replaced", left)
			}
			return s.isReady(pods)
		})
		s.Until("the nodes agree", func() error { return s.check(pods) })
		ledger.Close().Nothing(t, string(kind))
		if left := s.remain(before); kind != rolls && left != len(before) {
			t.Errorf("%s: %d of %d pods are left", kind, left, len(before))
		}
		t.Logf("%s: %s, %d lives; they ended at %v", kind, time.Since(began).Round(10*time.Millisecond), m.lives, m.ends)
		for where, n := range m.ends {
			everywhere[where] += n
		}
	}
	s.sized("20Gi")
	if full && everywhere["patch persistentvolumeclaims"] == 0 {
		t.Errorf("no life ended as it let a volume grow; they ended at %v", everywhere)
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
	s.standing("{replicas: 6, repository: redis}")
	skip, within := 0, 10*time.Minute
	if !full {
		skip, within = 2, patience
	}
	before, m := s.uids(), &mortal{skip: skip, ends: map[string]int{}}
	ledger := s.keep("ledger")
	s.change("{config: {io-threads: '2'}}")
	m.live(s, within, func() error {
		if left := s.remain(before); left > len(before)-2 {
			return fmt.Errorf("%d pods are not replaced", left)
		}
		return nil
	})
	s.change("{pause: true, size: medium}")
	began := m.lives
	m.live(s, within, func() error { return s.isPaused() })
	if n := m.lives - began; n != 1 {
		t.Errorf("%d operators ended while the cluster was paused: they wrote; they ended at %v", n-1, m.ends)
	}
	paused := s.uids()
	s.change("{pause: false}")
	m.live(s, within, func() error {
		if left := s.remain(paused); left > 0 {
			return fmt.Errorf("%d pods are not replaced", left)
		}
		return s.isReady(6)
	})
	s.Until("the nodes agree", func() error { return s.check(6) })
	ledger.Close().Nothing(t, "paused on the way")
	t.Logf("%d lives; they ended at %v", m.lives, m.ends)
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
	s.standing("{replicas: 6, repository: redis, pod: [{updateStrategy: {type: OnDelete}}]}")
	skip, within, deleted := 0, 10*time.Minute, 6
	if !full {
		skip, within, deleted = 2, patience, 1
	}
	before, m := s.uids(), &mortal{skip: skip, ends: map[string]int{}}
	s.change("{config: {io-threads: '2'}}")
	m.live(s, within, func() error { return s.isReady(6) })
	if left := s.remain(before); left != len(before) {
		t.Errorf("the operator replaced %d pods", len(before)-left)
	}
	for _, pod := range s.pods()[:deleted] {
		s.Must(suite.API.Delete(s.Ctx, pod.DeepCopy()))
		m.live(s, within, func() error {
			if s.remain(before) == len(before) {
				return fmt.Errorf("pod %s is still there", pod.Name)
			}
			return s.isReady(6)
		})
		s.Until("the nodes agree", func() error { return s.check(6) })
		before = s.uids()
	}
	t.Logf("%d lives; they ended at %v", m.lives, m.ends)
	s.holds()
}

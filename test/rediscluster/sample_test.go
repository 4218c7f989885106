// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// serving is how long after the last server had started all slots were served, by the status. Pods are ready when they serve.
func (s *scene) serving(from int) (time.Duration, error) {
	was, last := map[string]bool{}, time.Time{}
	for _, c := range s.Since(0)[from:] {
		switch o := c.Object.(type) {
		case *corev1.Pod:
			if hasStarted(o) && !was[o.Name] {
				last = c.At
				was[o.Name] = true
			}
		case *redisv1.RedisCluster:
			if o.Status.Slots == redisv1.Slots {
				return max(c.At.Sub(last), 0), nil
			}
		}
	}
	return 0, fmt.Errorf("the status never said that all slots are served")
}

// hasStarted reports whether all containers of a pod have started, as their startup probes say.
func hasStarted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Started == nil || !*c.Started {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// The sample of the earlier operator applies as it is: paused, of a version that is too old, with claims and a ConfigMap
// that are not there. Unpaused, with a version that is supported, it comes up, again and again.
func TestSample(t *testing.T) {
	s := newScene(t)
	s.Start()
	runs, bound := 1, 20*time.Second // other tests are busy beside this one
	if full {
		runs, bound = 10, 10*time.Second
	}
	var took []time.Duration
	for range runs {
		from := len(s.Since(0))
		rc := &redisv1.RedisCluster{}
		s.Must(harness.ReadYAML("test/rediscluster/testdata/sample.yaml", rc))
		rc.Name, rc.Namespace = name, s.Namespace
		s.Must(suite.API.Create(s.Ctx, rc))
		s.Until("it says why it does nothing", func() error {
			got := s.get()
			if got.Status.Phase != redisv1.PhaseNone || got.Status.Reason != redisv1.ReasonUnsupportedVersion ||
				!strings.HasPrefix(got.Status.Message, "paused") || !meta.IsStatusConditionTrue(got.Status.Conditions, redisv1.ConditionStalled) {
				return fmt.Errorf("status %+v", got.Status)
			}
			return nil
		})
		if sets := harness.Every[*appsv1.StatefulSet](s.Journal); len(sets) > 0 {
			t.Errorf("%d StatefulSets although it is paused", len(sets))
		}
		s.change("{pause: false, version: 7.0.15, replicas: 6}")
		s.ready(6)
		this, err := s.serving(from)
		s.Must(err)
		took = append(took, this.Round(10*time.Millisecond))
		if this > bound {
			t.Errorf("all slots were served %s after the last server had started, more than %s", this, bound)
		}
		got := s.get()
		s.Must(s.ignores(got, "pvcName", "ConfigMap name did not exist"))
		if got.Status.Shards != 3 || got.Status.Replicas != 6 {
			t.Errorf("%d shards of %d pods", got.Status.Shards, got.Status.Replicas)
		}
		s.write()
		s.holds()
		s.quiet()
		// finalizers: foreground: the data goes with the resource.
		s.Must(suite.API.Delete(s.Ctx, got))
		s.Until("everything goes", func() error {
			for _, o := range s.All() {
				if strings.HasPrefix(o.GetName(), name) || strings.HasPrefix(o.GetName(), "data-"+name) {
					return fmt.Errorf("%s is still there", harness.IDOf(o))
				}
			}
			return nil
		})
	}
	t.Logf("the sample, %d runs without a failure: all 16384 slots served %v after the last of six servers had started (bound %s)", runs, took, bound)

	// As it is, with seven pods.
	rc := &redisv1.RedisCluster{}
	s.Must(harness.ReadYAML("test/rediscluster/testdata/sample.yaml", rc))
	rc.Name, rc.Namespace, rc.Spec.Pause, rc.Spec.Version = name, s.Namespace, false, "7.0.15"
	s.Must(suite.API.Create(s.Ctx, rc))
	s.ready(7)
}

// ignores returns what the condition SpecIgnored does not name.
func (s *scene) ignores(rc *redisv1.RedisCluster, words ...string) error {
	c := meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionSpecIgnored)
	if c == nil {
		return fmt.Errorf("there is no condition SpecIgnored: %+v", rc.Status.Conditions)
	}
	return harness.Mentions(c.Message, words...)
}

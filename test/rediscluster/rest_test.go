// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// asked returns the number of calls of each command at a server since its counters were reset.
func (s *scene) asked(pod string) map[string]int {
	s.Helper()
	for _, p := range s.pods() {
		if p.Name != pod {
			continue
		}
		c := s.node(p)
		defer c.Close()
		text, err := c.Info(s.Ctx, "commandstats").Result()
		s.Must(err)
		seen := map[string]int{}
		for line := range strings.Lines(text) {
			if command, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls="); ok {
				count, _, _ := strings.Cut(rest, ",")
				if seen[command], err = strconv.Atoi(count); err != nil {
					s.Fatal(err)
				}
			}
		}
		return seen
	}
	s.Fatalf("pod %s does not exist", pod)
	return nil
}

// harmless contains the commands that servers get while nothing changes: reads of the operator and of the test, commands of replicas, and
// commands of probes, which also publish and note the marks of volumes.
var harmless = map[string]bool{
	"cluster|myid": true, "cluster|nodes": true, "cluster|info": true, "info": true, "time": true, "config|get": true, "hello": true,
	"ping": true, "replconf": true, "auth": true, "config|resetstat": true, "select": true, "command": true, "command|docs": true, "psync": true,
	"acl|getuser": true, "acl|setuser": true,
}

// While nothing changes, the operator sends no request to the API server. It reads from each server every 30 seconds, and writes nothing. A
// new operator does the same after its start.
func TestAtRest(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.Start()
	s.create("{replicas: 6, repository: redis, config: {maxmemory-policy: allkeys-lru}, pod: [{configmap: nowhere}]}")
	s.ready(6)
	op.Stop()
	op = s.Start()
	s.Eventually("the new operator has read from all servers", func() bool {
		return len(op.Since(0, func(r harness.Sent) bool { return strings.Contains(r.String(), "configmaps/nowhere") })) != 0
	})
	s.quiet()
	looks := 40 * time.Second
	if full {
		looks = 10 * time.Minute
	}
	for _, pod := range s.pods() {
		c := s.node(pod)
		s.Must(c.ConfigResetStat(s.Ctx).Err())
		s.Must(c.Close())
	}
	began := time.Now()
	s.AsksNothing(op, looks)
	most, bound := 0, int(time.Since(began)/(30*time.Second))+1
	for _, pod := range s.pods() {
		seen := s.asked(pod.Name)
		most = max(most, seen["cluster|nodes"])
		for command, n := range seen {
			if !harmless[command] {
				t.Errorf("%s was sent %s %d times", pod.Name, command, n)
			}
		}
	}
	t.Logf("%s at rest: the operator read from each server %d times at most (bound %d), and wrote nothing",
		time.Since(began).Round(time.Second), most, bound)
	if most > bound || most == 0 {
		t.Errorf("the operator read from a server %d times, bound %d", most, bound)
	}
}

// A cluster whose servers all hang delays no other cluster, even with a single worker.
func TestUnreachableDelaysNoOther(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start(func(_ *rest.Config, o *manager.Options) { o.MaxConcurrentReconciles = 1 })
	s.create(six)
	other := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	s.CreateWith(other, &other.Spec, six)
	s.ready(6)
	s.Eventually("the other one is ready", func() bool {
		now := harness.Lookup[*redisv1.RedisCluster](s.Journal, "other")
		return now != nil && now.Status.Phase == redisv1.PhaseRunning
	})
	set := func(policy string) time.Duration {
		began := time.Now()
		s.change(fmt.Sprintf("{config: {maxmemory-policy: %s}}", policy))
		s.Until("set", func() error { return s.evicts(policy, "") })
		return time.Since(began).Round(10 * time.Millisecond)
	}
	alone := set("allkeys-lru")
	for shard := range 3 {
		for pod := range 2 {
			s.Must(s.Kill(fmt.Sprintf("other-%d-%d", shard, pod), syscall.SIGSTOP, "redis"))
		}
	}
	s.Until("it is noticed", func() error {
		if now := harness.Lookup[*redisv1.RedisCluster](s.Journal, "other"); now.Status.Verdict != "Unknown" {
			return fmt.Errorf("the verdict is %s", now.Status.Verdict)
		}
		return nil
	})
	bound := max(10*time.Second, 3*alone) // a multiple of alone, because a busy machine is slow even if no cluster hangs
	var beside []time.Duration
	for _, policy := range []string{"allkeys-lfu", "volatile-lru", "noeviction"} {
		took := set(policy)
		if beside = append(beside, took); took > bound {
			t.Errorf("next to a cluster that hangs, a setting took %s, more than %s", took, bound)
		}
	}
	t.Logf("a setting was changed in %s; next to a cluster whose servers hang, with one worker, in %v (bound %s)", alone, beside, bound)
	s.ready(6)
}

// serving returns the time from the start of the last server until the status reported all slots as served. The startup probes report the
// start, because a pod is ready only when it serves.
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
	return 0, fmt.Errorf("the status never reported that all slots are served")
}

// hasStarted reports whether the startup probes of all containers of a pod have succeeded.
func hasStarted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Started == nil || !*c.Started {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// The API server accepts the unchanged sample of the earlier operator: paused, with an unsupported old version, and with claims and a
// ConfigMap that do not exist. After the test unpauses it and sets a supported version, the cluster becomes ready, in each of several runs.
func TestSample(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.Start()
	runs, bound := 1, 20*time.Second // other tests run at the same time
	if full {
		runs, bound = 10, 10*time.Second
	}
	var took []time.Duration
	for range runs {
		from := len(s.Since(0))
		s.sample()
		s.change("{pause: false, version: 7.0.15, replicas: 6}")
		s.ready(6)
		this, err := s.serving(from)
		s.Must(err)
		took = append(took, this.Round(10*time.Millisecond))
		if this > bound {
			t.Errorf("all slots were served %s after the last server had started, more than %s", this, bound)
		}
		got := s.isOfTheSample()
		s.write()
		s.holds()
		s.quiet()
		// finalizers: foreground means that the data is deleted with the resource.
		s.Must(suite.API.Delete(s.Ctx, got))
		s.Until("everything goes", func() error {
			for _, o := range s.All() {
				if strings.HasPrefix(o.GetName(), name) || strings.HasPrefix(o.GetName(), "data-"+name) {
					return fmt.Errorf("%s still exists", harness.IDOf(o))
				}
			}
			return nil
		})
	}
	t.Logf("the sample had %d runs without a failure: all 16384 slots served %v after the last of six servers had started (bound %s)", runs, took, bound)

	// The unchanged sample has seven pods.
	rc := &redisv1.RedisCluster{}
	s.Must(harness.ReadYAML("test/testdata/seeds/rediscluster.yaml", rc))
	rc.Name, rc.Namespace, rc.Spec.Pause, rc.Spec.Version = name, s.Namespace, false, "7.0.15"
	s.Must(suite.API.Create(s.Ctx, rc))
	s.ready(7)
}

// sample creates the sample, and waits until the status has the reasons why the operator does nothing.
func (s *scene) sample() {
	s.Helper()
	rc := &redisv1.RedisCluster{}
	s.Must(harness.ReadYAML("test/testdata/seeds/rediscluster.yaml", rc))
	rc.Name, rc.Namespace = name, s.Namespace
	s.Must(suite.API.Create(s.Ctx, rc))
	s.Until("the status has the reasons", func() error {
		got := s.get()
		if got.Status.Phase != redisv1.PhaseNone || got.Status.Reason != redisv1.ReasonUnsupportedVersion ||
			!strings.HasPrefix(got.Status.Message, "paused") || !meta.IsStatusConditionTrue(got.Status.Conditions, redisv1.ConditionStalled) {
			return fmt.Errorf("status %+v", got.Status)
		}
		return nil
	})
	if sets := harness.Every[*appsv1.StatefulSet](s.Journal); len(sets) > 0 {
		s.Errorf("%d StatefulSets although it is paused", len(sets))
	}
}

// isOfTheSample fails the test unless the status reports six pods and the ignored fields of the sample. It returns the resource.
func (s *scene) isOfTheSample() *redisv1.RedisCluster {
	s.Helper()
	got := s.get()
	s.Must(s.ignores(got, "pvcName", "ConfigMap name did not exist"))
	if got.Status.Shards != 3 || got.Status.Replicas != 6 {
		s.Errorf("%d shards of %d pods", got.Status.Shards, got.Status.Replicas)
	}
	return got
}

// ignores returns an error that names words that the condition SpecIgnored lacks, or nil.
func (s *scene) ignores(rc *redisv1.RedisCluster, words ...string) error {
	c := meta.FindStatusCondition(rc.Status.Conditions, redisv1.ConditionSpecIgnored)
	if c == nil {
		return fmt.Errorf("condition SpecIgnored does not exist: %+v", rc.Status.Conditions)
	}
	return harness.Mentions(c.Message, words...)
}

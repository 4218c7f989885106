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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// asked is how often a server was sent each command since its counts were reset.
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
	s.Fatalf("there is no pod %s", pod)
	return nil
}

// harmless are the commands that servers get at rest: the operator's reads, those of the probes, the test's, and what replicas
// send.
var harmless = map[string]bool{
	"cluster|myid": true, "cluster|nodes": true, "cluster|info": true, "info": true, "time": true, "config|get": true, "hello": true,
	"ping": true, "replconf": true, "auth": true, "config|resetstat": true, "select": true, "command": true, "command|docs": true, "psync": true,
}

// At rest the API server is asked for nothing and told nothing, and each server is asked what it sees every 30 seconds, and told
// nothing; by an operator that has just started, too.
func TestAtRest(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.Start()
	s.create("{replicas: 6, repository: redis, config: {maxmemory-policy: allkeys-lru}, pod: [{configmap: nowhere}]}")
	s.ready(6)
	op.Stop()
	op = s.Start()
	s.Eventually("it has looked around", func() bool {
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
	t.Logf("%s at rest: each server was asked what it sees %d times at most (bound %d), and told nothing",
		time.Since(began).Round(time.Second), most, bound)
	if most > bound || most == 0 {
		t.Errorf("a server was asked what it sees %d times, bound %d", most, bound)
	}
}

// A cluster whose servers all hang delays no other, though one worker does everything.
func TestUnreachableDelaysNoOther(t *testing.T) {
	harness.Long(t)
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
	bound := max(10*time.Second, 3*alone) // a machine with much else to do is slow without a cluster that hangs, too
	var beside []time.Duration
	for _, policy := range []string{"allkeys-lfu", "volatile-lru", "noeviction"} {
		took := set(policy)
		if beside = append(beside, took); took > bound {
			t.Errorf("beside a cluster that hangs a setting took %s, more than %s", took, bound)
		}
	}
	t.Logf("a setting was changed in %s; beside a cluster of which all servers hang, with one worker, in %v (bound %s)", alone, beside, bound)
	s.ready(6)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A DataService with a Redis becomes ready, and an additional service can use Redis. The data stays when the DataService
// hibernates, and when it is deleted.
func TestInADataService(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.Start()
	ds := s.withService(t)
	s.Hibernate()
	s.ready(6)
	s.holds()
	s.serviceWorks()
	s.DeletePlatform()
	s.keptData()
	s.CreateReady(ds)
	s.ready(6)
	s.holds()
	s.serviceWorks()

	op.Stop()
	op = s.Start()
	s.quiet()
	s.AsksNothing(op, 35*time.Second) // longer than the interval between two reads of the nodes
}

// withService creates a DataService with a Redis and a service that uses it, and writes data.
func (s *scene) withService(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	began := time.Now()
	ds := s.NewPlatform(withService)
	s.CreateReady(ds)
	t.Logf("the DataService is ready after %s", time.Since(began))
	s.ready(6)
	if owner := metav1.GetControllerOf(s.get()); owner == nil || owner.Name != platform {
		t.Errorf("the controller of the RedisCluster is %v", owner)
	}
	if c := s.Component("redis"); c.Kind != "Managed" || c.Ready != 6 || c.Desired != 6 || c.Phase != dsv1.PhaseRunning {
		t.Errorf("the status says %+v", c)
	}
	s.WaitsFor("reports", isServing)
	s.serviceWorks()
	s.write()
	s.quiet()
	return ds
}

// Redis grows without a restart of the service. When redis is removed from the spec, its data stays.
func TestGrowsInADataService(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start()
	s.withService(t)
	services := s.podsOf("reports")
	began := time.Now()
	s.Become("{redis: {replicas: 8}}")
	t.Logf("8 pods after %s", time.Since(began))
	s.ready(8)
	s.Become("{redis: {replicas: 6}}")
	s.ready(6)
	if now := s.podsOf("reports"); now != services {
		t.Errorf("the service was restarted: %s, then %s", services, now)
	}
	s.holds()
	s.removeClaims("data-cache-3-0", "data-cache-3-1")

	s.Become("{redis: null, additionalServices: null}")
	s.keptData()
	began = time.Now()
	s.Become(withService)
	t.Logf("adopted again after %s", time.Since(began))
	s.ready(6)
	s.holds()
	s.serviceWorks()
}

// The DataService determines the whole spec of the RedisCluster. If the DataService is paused, the operator pauses the RedisCluster and
// changes no other field of its spec.
func TestDataServiceOwnsTheSpecOfItsRedisCluster(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.Start()
	s.CreateReady(s.NewPlatform("{redis: {name: cache, image: redis, config: {maxmemory-policy: allkeys-lru}}}"))
	planned := s.get().Spec
	s.change(`{replicas: 8, finalizers: foreground, pause: true, version: 7.2.5, config: {maxmemory-policy: noeviction, timeout: "60"},
		networkPolicy: {enabled: true}, updateStrategy: {type: AutoReceive, pipeline: "10"}, pod: [{labels: {a: b}}]}`)
	s.Until("the spec is restored", func() error { return same(s.get().Spec, planned) })
	s.ready(6)

	s.ChangePlatform("{paused: true}")
	s.Until("Redis is paused, too", func() error {
		if status := s.status(); !s.get().Spec.Pause || status.Phase != dsv1.PhasePaused || status.Ready != "1/1" {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	s.ChangePlatform("{redis: {replicas: 8}}")
	s.Until("it is seen", func() error {
		if ds := s.DataService(platform); ds.Status.ObservedGeneration != ds.Generation || s.get().Status.Reason != redisv1.ReasonPaused {
			return fmt.Errorf("%+v", ds.Status)
		}
		return nil
	})
	s.quiet()
	if got := s.get().Spec; *got.Replicas != 6 {
		t.Errorf("a paused DataService has set replicas of Redis to %d", *got.Replicas)
	}
	s.Become("{paused: false, redis: {replicas: 6}}")
	s.Until("it goes on", func() error { return same(s.get().Spec, planned) })
	s.ready(6)
	for _, e := range s.corrects() {
		if strings.Contains(e, "paused") {
			t.Error(e)
		}
	}
	s.quiet()
}

// Redis becomes a third party, and then managed again. The operator's servers run until the third party answers, and their data is kept
// permanently.
func TestThirdPartyAndBack(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start()
	s.CreateReady(s.NewPlatform(withService))
	s.ready(6)
	s.write()
	// The check of the third party fails, so the operator's servers still run.
	s.ChangePlatform(`{redis: {kind: ThirdParty, thirdParty: {url: "redis://192.0.2.1:7000,192.0.2.2:7000", checkCMD: "exit 1"}}}`)
	s.AwaitsThirdParty("redis")
	s.ready(6)
	s.serviceWorks() // the operator does not change the service yet
	s.Become(`{redis: {thirdParty: {checkCMD: "exit 0"}}}`)
	s.keptData()
	for _, v := range harness.Lookup[*appsv1.Deployment](s.Journal, "reports").Spec.Template.Spec.Containers[0].Env {
		if v.Name == "SPRING_REDIS_CLUSTER_NODES" && v.Value != "192.0.2.1:7000,192.0.2.2:7000" {
			t.Errorf("the service gets the address %s", v.Value)
		}
	}
	s.Become(`{redis: {kind: Managed}}`)
	s.ready(6)
	s.holds()
	s.serviceWorks()
}

// A foreign RedisCluster with the name in spec.redis is neither changed nor deleted. The status names the
// RedisCluster, and the operator applies the other components of the spec.
func TestForeignRedisCluster(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis, pause: true}")
	before := s.get()
	s.Create(s.NewPlatform("{redis: {name: cache, image: redis}, additionalServices: [{name: reports, image: work, command: [sleep, '1000000']}]}"))
	s.Stalls("ObjectConflict", "RedisCluster cache")
	s.Eventually("the rest of the spec is carried out", func() bool { return s.podsOf("reports") != "" })
	if err := same(s.get().Spec, before.Spec); err != nil || len(s.get().OwnerReferences) > 0 {
		t.Errorf("the foreign RedisCluster was changed: %v %v", err, s.get().OwnerReferences)
	}
	s.DeletePlatform()
	s.Eventually("the DataService's objects are deleted", func() bool { return s.podsOf("reports") == "" })
	if s.get().UID != before.UID || s.get().DeletionTimestamp != nil {
		t.Error("the foreign RedisCluster was deleted with the DataService")
	}
}

// A spec that the API server refuses for the RedisCluster changes nothing, and the status names the field.
func TestRefusedRedisClusterSpec(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.Start()
	s.CreateReady(s.NewPlatform("{redis: {name: cache, image: redis}}"))
	before := s.get()
	s.ChangePlatform("{redis: {labels: {redis.middleware.hc.cn/a: b}}, additionalServices: [{name: reports, image: work}]}")
	s.Stalls("InvalidSpec", "labels of")
	if err := same(s.get().Spec, before.Spec); err != nil {
		t.Error(err)
	}
	if harness.Lookup[*appsv1.Deployment](s.Journal, "reports") != nil {
		t.Error("the rest of the spec was carried out")
	}
	s.Become("{redis: {labels: null}, additionalServices: null}")
}

// The operator crashes when it creates, pauses and removes the RedisCluster of a DataService: before the write, after the write but without
// the answer, and after the answer. The next operator continues, and no data is lost.
func TestCrashesWithADataService(t *testing.T) {
	harness.FullForm(t, full)
	for name, crash := range stage.Crashes {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.crashing("apply", crash, func() { s.Create(s.NewPlatform(withService)) })
			s.Ready(platform)
			s.ready(6)
			s.write()
			s.crashing("patch", crash, func() { s.ChangePlatform("{paused: true}") })
			s.Eventually("Redis is paused", func() bool { return s.get().Spec.Pause })
			s.Become("{paused: false}")
			s.crashing("delete", crash, func() { s.ChangePlatform("{redis: null, additionalServices: null}") })
			s.keptData()
			s.Become(withService)
			s.ready(6)
			s.holds()
			s.serviceWorks()
		})
	}
}

// crashing makes the operator crash at its next write of the RedisCluster with a verb, and starts the next operator.
func (s *scene) crashing(verb string, crash fault.Action, act func()) {
	s.Helper()
	point := fault.Point{Verb: verb, Resource: "redisclusters", Name: name, Nth: 1}
	s.operator = s.CrashAt(s.operator, s.Start, point.Rule(crash), act)
}

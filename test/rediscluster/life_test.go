// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// keys are written to every part of the slots, and must be there at the end.
const keys = 300

// write writes the keys, as a client of a cluster does.
func (s *scene) write() {
	s.Helper()
	s.eachKey("write", func(c *redis.ClusterClient, key string, i int) error { return c.Set(s.Ctx, key, i, 0).Err() })
}

// holds fails the test unless all keys are there.
func (s *scene) holds() {
	s.Helper()
	s.eachKey("read", func(c *redis.ClusterClient, key string, i int) error {
		value, err := c.Get(s.Ctx, key).Int()
		if err == nil && value != i {
			s.Fatalf("%s is %d", key, value)
		}
		return err
	})
}

// eachKey does something with each of the keys, again where it fails.
func (s *scene) eachKey(what string, do func(c *redis.ClusterClient, key string, i int) error) {
	s.Helper()
	c := s.clients()
	defer c.Close()
	for i := range keys {
		key := fmt.Sprintf("key-%d", i)
		s.Try(what+" "+key, func() error { return do(c, key, i) })
	}
	s.CatchUp()
}

// quiet fails the test if anything changes while it looks on.
func (s *scene) quiet() {
	s.Helper()
	before := len(s.Since(0))
	s.Pass(time.Second)
	for _, c := range s.Since(0)[before:] {
		s.Errorf("at rest: %s %s", c.Event, c.ID)
	}
}

// A cluster heals when pods go, one and all of them, and an operator that starts over it changes nothing.
func TestHeals(t *testing.T) {
	s := newScene(t)
	op := s.standing(six)
	s.quiet()

	began := time.Now()
	s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-1-0"}}))
	s.Eventually("the pod goes", s.isUnready)
	s.ready(6)
	t.Logf("a pod was deleted: whole again after %s", time.Since(began))

	began = time.Now()
	s.Must(s.ChangeAddresses(s.Ctx))
	s.Eventually("the pods go", s.isUnready)
	s.ready(6)
	t.Logf("all pods came back at new addresses: whole again after %s", time.Since(began))
	s.holds()

	op.Stop()
	s.Start()
	s.quiet()
}

// isUnready reports whether the cluster is not ready.
func (s *scene) isUnready() bool {
	return !meta.IsStatusConditionTrue(s.get().Status.Conditions, redisv1.ConditionReady)
}

// evicts returns which server, but that of one pod, does not have a policy for a full memory.
func (s *scene) evicts(policy, but string) error {
	for _, pod := range s.pods() {
		if pod.Name == but {
			continue
		}
		c := s.node(pod)
		got, err := c.ConfigGet(s.Ctx, "maxmemory-policy").Result()
		if err = errors.Join(err, c.Close()); err != nil || got["maxmemory-policy"] != policy {
			return fmt.Errorf("%s has %v (%w)", pod.Name, got, err)
		}
	}
	return nil
}

// A volume is emptied under a running master. Its data comes back from the replica, which must not copy the empty server.
func TestDataLostInPlace(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six)
	began, kept := time.Now(), ""
	for _, pod := range s.pods() {
		if role, err := s.node(pod).Do(s.Ctx, "ROLE").Slice(); err != nil || role[0] != "master" {
			continue
		}
		folder, err := s.VolumeFolder(s.Ctx, "data-"+pod.Name)
		s.Must(err)
		kept = folder
		// A snapshot is left, which Redis does not read beside an append-only file.
		s.Must(s.node(pod).Save(s.Ctx).Err())
		for _, file := range []string{"appendonlydir", "appendonly.aof"} { // the latter before Redis 7
			s.Must(os.RemoveAll(filepath.Join(folder, file)))
		}
		s.Must(s.Kill(pod.Name, syscall.SIGKILL, "redis"))
		s.Eventually("the pod is replaced", func() bool {
			now := harness.Lookup[*corev1.Pod](s.Journal, pod.Name)
			return now != nil && now.UID != pod.UID
		})
		break
	}
	s.ready(6)
	t.Logf("a master lost its data in place: whole again after %s", time.Since(began))
	s.holds()
	if _, err := os.Stat(kept + "/dump.rdb.without-aof"); err != nil {
		t.Errorf("its snapshot is not kept for people: %v", err)
	}
}

// A cluster that is deleted leaves its data, and one of the same name takes it up.
func TestTakesUpItsData(t *testing.T) {
	harness.Long(t) // the short form deletes its DataService instead: TestInADataService
	s := newScene(t)
	s.standing(six)
	password := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials").Data["password"]
	s.Must(suite.API.Delete(s.Ctx, s.get()))
	s.Eventually("its pods go", func() bool { return len(s.pods()) == 0 })
	if claims := harness.Every[*corev1.PersistentVolumeClaim](s.Journal); len(claims) != 6 {
		t.Fatalf("%d claims are left", len(claims))
	}
	s.create(six)
	s.ready(6)
	s.holds()
	if now := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials").Data["password"]; !slices.Equal(now, password) {
		t.Error("the password is another one")
	}
}

// Settings change on running servers; shards come and go, and no key is lost; the events tell of it.
func TestChanges(t *testing.T) {
	s := newScene(t)
	s.standing(six)
	before := s.uids()
	s.change("{config: {maxmemory-policy: allkeys-lru}}")
	s.ready(6)
	if err := s.evicts("allkeys-lru", ""); err != nil {
		t.Error(err)
	}
	if s.remain(before) != 6 {
		t.Error("pods were replaced for a setting that changes while they run")
	}

	s.change("{replicas: 8}")
	t.Logf("8 pods after %s", s.ready(8))
	s.holds()
	for shard := range 3 { // whichever pod is the master, and in however many parts
		s.tells(fmt.Sprintf(`move \d+ slots \([-, 0-9]+\) from %s-%d-\d to %s-3-\d`, name, shard, name), "MoveSlots")
	}
	s.tellsAsItHappens()
	s.change("{replicas: 6}")
	t.Logf("6 pods after %s", s.ready(6))
	s.holds()
	s.quiet()
}

// A change that needs new pods replaces all of them, one shard at a time.
func TestRolls(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.standing(six)
	before := s.uids()
	s.change("{config: {io-threads: '2'}}")
	began := time.Now()
	s.Until("rolled", func() error {
		if left := s.remain(before); left > 0 {
			return fmt.Errorf("%d pods are not replaced: %s", left, s.get().Status.Message)
		}
		return s.isReady(6)
	})
	s.ready(6)
	t.Logf("six pods replaced after %s", time.Since(began))
	s.story()
	s.holds()
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// keys are written to every part of the slots, and must be there at the end.
const keys = 300

// write writes the keys, as a client of a cluster does.
func (s *scene) write() {
	s.Helper()
	c := s.clients()
	defer c.Close()
	for i := range keys {
		s.Until("a key is written", func() error { return c.Set(s.Ctx, fmt.Sprintf("key-%d", i), i, 0).Err() })
	}
}

// holds fails the test unless all keys are there.
func (s *scene) holds() {
	s.Helper()
	c := s.clients()
	defer c.Close()
	for i := range keys {
		s.Until("a key is read", func() error {
			value, err := c.Get(s.Ctx, fmt.Sprintf("key-%d", i)).Int()
			if err == nil && value != i {
				s.Fatalf("key-%d is %d", i, value)
			}
			return err
		})
	}
}

// quiet fails the test if anything changes while it looks on.
func (s *scene) quiet() {
	s.Helper()
	before := len(s.Since(0))
	_ = s.Within(time.Second, func() error { return errors.New("quiet so far") })
	for _, c := range s.Since(0)[before:] {
		s.Errorf("at rest: %s %s", c.Event, c.ID)
	}
}

// The sample of the earlier operator applies as it is, paused and of a version that is too old. Then it comes up.
func TestSample(t *testing.T) {
	s := newScene(t)
	s.Start()
	rc := &redisv1.RedisCluster{}
	s.Must(harness.ReadYAML("internal/kinds/rediscluster/testdata/sample.yaml", rc))
	rc.Name, rc.Namespace, rc.UID, rc.Generation = name, s.Namespace, "", 0
	rc.Spec.Pause, rc.Spec.Version = true, "3.2.8"
	s.Must(suite.API.Create(s.Ctx, rc))
	s.Until("it says why it does nothing", func() error {
		got := s.get()
		if got.Status.Phase != redisv1.PhaseNone || got.Status.Reason != redisv1.ReasonUnsupportedVersion ||
			!strings.HasPrefix(got.Status.Message, "paused") || !meta.IsStatusConditionTrue(got.Status.Conditions, redisv1.ConditionStalled) {
			return fmt.Errorf("status %+v", got.Status)
		}
		return nil
	})
	if sets := all[*appsv1.StatefulSet](s); len(sets) > 0 {
		t.Errorf("%d StatefulSets although it is paused", len(sets))
	}
	s.change("{pause: false, version: 7.0.15}")
	s.ready(7)
	got := s.get()
	if c := meta.FindStatusCondition(got.Status.Conditions, redisv1.ConditionSpecIgnored); c == nil || !strings.Contains(c.Message, "pvcName") {
		t.Errorf("that no claim can be named so is not said: %+v", got.Status.Conditions)
	}
	if got.Status.Shards != 3 || got.Status.Replicas != 7 {
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

// A cluster heals when pods go, one and all of them, and an operator that starts over it changes nothing.
func TestHeals(t *testing.T) {
	s := newScene(t)
	op := s.Start()
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()
	s.quiet()

	began := time.Now()
	s.Must(suite.API.Delete(s.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-1-0"}}))
	s.Until("the pod goes", func() error { return s.notReady() })
	s.ready(6)
	t.Logf("a pod was deleted: whole again after %s", time.Since(began))

	began = time.Now()
	s.Must(s.ChangeAddresses(s.Ctx))
	s.Until("the pods go", func() error { return s.notReady() })
	s.ready(6)
	t.Logf("all pods came back at new addresses: whole again after %s", time.Since(began))
	s.holds()

	op.Stop()
	op = s.Start()
	s.quiet()
	s.asksNothing(op)
}

// asksNothing fails the test if an operator asks the API server for something while it looks on, for longer than the operator
// leaves nodes at rest alone.
func (s *scene) asksNothing(op *stage.Operator) {
	s.Helper()
	mark := op.Mark()
	_ = s.Within(35*time.Second, func() error { return errors.New("quiet so far") })
	asked := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() })
	if len(asked) > 0 {
		s.Errorf("at rest: %v", asked)
	}
}

// notReady returns nil while the cluster is not ready.
func (s *scene) notReady() error {
	if meta.IsStatusConditionTrue(s.get().Status.Conditions, redisv1.ConditionReady) {
		return errors.New("it is ready")
	}
	return nil
}

// A volume is emptied under a running master. Its data comes back from the replica, which must not copy the empty server.
func TestDataLostInPlace(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()
	began := time.Now()
	for _, pod := range s.pods() {
		if role, err := s.node(pod).Do(s.Ctx, "ROLE").Slice(); err != nil || role[0] != "master" {
			continue
		}
		folder, err := s.VolumeFolder(s.Ctx, "data-"+pod.Name)
		s.Must(err)
		s.Must(os.RemoveAll(folder + "/appendonlydir"))
		s.Must(s.Kill(pod.Name, syscall.SIGKILL, "redis"))
		s.Until("the pod is replaced", func() error {
			if now := harness.Lookup[*corev1.Pod](s.Journal, pod.Name); now == nil || now.UID == pod.UID {
				return errors.New("it is not")
			}
			return nil
		})
		break
	}
	s.ready(6)
	t.Logf("a master lost its data in place: whole again after %s", time.Since(began))
	s.holds()
}

// A cluster that is deleted leaves its data, and one of the same name takes it up.
func TestTakesUpItsData(t *testing.T) {
	s := newScene(t)
	s.Start()
	rc := s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()
	password := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials").Data["password"]
	s.Must(suite.API.Delete(s.Ctx, rc))
	s.Until("its pods go", func() error {
		if pods := s.pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	})
	if claims := all[*corev1.PersistentVolumeClaim](s); len(claims) != 6 {
		t.Fatalf("%d claims are left", len(claims))
	}
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.holds()
	if now := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials").Data["password"]; !slices.Equal(now, password) {
		t.Error("the password is another one")
	}
}

// Settings change on running servers; shards come and go, and no key is lost; the events tell of it.
func TestChanges(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()
	uids := func() (found []string) {
		for _, pod := range s.pods() {
			found = append(found, string(pod.UID))
		}
		slices.Sort(found)
		return found
	}
	before := uids()
	s.change("{config: {maxmemory-policy: allkeys-lru}}")
	s.ready(6)
	for _, pod := range s.pods() {
		c := s.node(pod)
		got, err := c.ConfigGet(s.Ctx, "maxmemory-policy").Result()
		if err != nil || got["maxmemory-policy"] != "allkeys-lru" {
			t.Errorf("%s has %v (%v)", pod.Name, got, err)
		}
		s.Must(c.Close())
	}
	if !slices.Equal(uids(), before) {
		t.Error("pods were replaced for a setting that changes while they run")
	}

	s.change("{replicas: 8}")
	t.Logf("8 pods after %s", s.ready(8))
	s.holds()
	s.tells("move 1365 slots (0-1364) from cache-0-0 to cache-3-0", "MoveSlots")
	s.change("{replicas: 6}")
	t.Logf("6 pods after %s", s.ready(6))
	s.holds()
	s.quiet()
}

// A change that needs new pods replaces all of them, one shard at a time.
func TestRolls(t *testing.T) {
	s := newScene(t)
	s.Start()
	s.create("{replicas: 6, repository: redis}")
	s.ready(6)
	s.write()
	old := map[string]bool{}
	for _, pod := range s.pods() {
		old[string(pod.UID)] = true
	}
	s.change("{config: {io-threads: '2'}}")
	began := time.Now()
	s.Until("rolled", func() error {
		for _, pod := range s.pods() {
			if old[string(pod.UID)] {
				return fmt.Errorf("%s is not replaced: %s", pod.Name, s.get().Status.Message)
			}
		}
		return s.isReady(6)
	})
	s.ready(6)
	t.Logf("six pods replaced after %s", time.Since(began))
	s.story()
	s.holds()
}

// story logs what the status said, in order.
func (s *scene) story() {
	last, began := "", time.Time{}
	for _, c := range s.Since(0) {
		rc, ok := c.Object.(*redisv1.RedisCluster)
		if !ok {
			continue
		}
		if began.IsZero() {
			began = c.At
		}
		if line := fmt.Sprintf("%s %s %d %s: %s", rc.Status.Phase, rc.Status.Ready, rc.Status.Slots, rc.Status.Reason, rc.Status.Message); line != last {
			s.Logf("%6.1f %s", c.At.Sub(began).Seconds(), line)
			last = line
		}
	}
}

// tells fails the test unless an event of a reason says something.
func (s *scene) tells(text, reason string) {
	s.Helper()
	s.Until("an event says "+text, func() error {
		list := &eventsv1.EventList{}
		s.Must(suite.API.List(s.Ctx, list, client.InNamespace(s.Namespace)))
		var said []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("events: %s", strings.Join(said, "\n"))
	})
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// reportsProgress fails the test unless MESSAGE of kubectl get showed the progress of a new shard while slots were moved to the shard.
func (s *scene) reportsProgress() {
	s.Helper()
	var slots []int
	messages := map[string]bool{}
	for _, c := range s.Since(0) {
		rc, ok := c.Object.(*redisv1.RedisCluster)
		if !ok || rc.Status.Phase != redisv1.PhaseScaling {
			continue
		}
		messages[rc.Status.Message] = true
		for _, i := range rc.Status.Instances {
			owned, err := topology.ParseSlotSet(i.Slots)
			s.Must(err)
			if i.Name == name+"-3-0" && (len(slots) == 0 || slots[len(slots)-1] != owned.Len()) {
				slots = append(slots, owned.Len())
			}
		}
	}
	s.Logf("during the scale-out, the status reported %v slots of the new shard, and had %d different messages", slots, len(messages))
	if !slices.IsSorted(slots) || len(slots) < 3 {
		s.Errorf("the status reported %v slots of the new shard, want increasing numbers", slots)
	}
	for _, text := range []string{"record cache-3-", "make cache-3-1 a replica of cache-3-0", "move 1365 slots (0-1364) from cache-0-0 to cache-3-0"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(messages)), func(m string) bool { return strings.Contains(m, text) }) {
			s.Errorf("the status never had the message: %s", text)
		}
	}
}

// hasEvent fails the test unless an event of a reason has a note that matches a regular expression.
func (s *scene) hasEvent(text, reason string) {
	s.Helper()
	wanted := regexp.MustCompile(text)
	err := s.Within(patience, func() error {
		var said []string
		for _, e := range s.Events() {
			if e.Reason == reason && wanted.MatchString(e.Note) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("events: %s", strings.Join(said, "\n"))
	})
	if err != nil {
		s.Errorf("no event has the text %s: %v", text, err)
	}
}

// scribe is a server.Tap that records the commands with an effect, in order.
type scribe struct {
	mu   sync.Mutex
	sent []string
}

// Send records commands.
func (s *scribe) Send(_ topology.Place, commands []string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range commands {
		if redistest.HasEffect(command) {
			s.sent = append(s.sent, command)
		}
	}
	return len(commands), nil
}

// Received lets every step continue.
func (s *scribe) Received(topology.Place, []string) error { return nil }

// count returns the number of commands that begin with words.
func (s *scribe) count(words string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range s.sent {
		if strings.HasPrefix(command, words) {
			n++
		}
	}
	return n
}

// pod returns the last seen version of a pod, or nil.
func (s *scene) pod(name string) *corev1.Pod { return harness.Lookup[*corev1.Pod](s.Journal, name) }

// try sends a command to the server of a pod.
func (s *scene) try(pod string, command ...any) (any, error) {
	object := s.pod(pod)
	if object == nil || object.Status.PodIP == "" {
		return nil, fmt.Errorf("pod %s has no address", pod)
	}
	c := s.node(object)
	defer c.Close()
	return c.Do(s.Ctx, command...).Result()
}

// do sends a command to the server of a pod, and fails the test if the command fails.
func (s *scene) do(pod string, command ...any) any {
	s.Helper()
	answer, err := s.try(pod, command...)
	if err != nil {
		s.Fatalf("%v on %s: %v", command, pod, err)
	}
	return answer
}

// isA returns nil if the server of a pod reports the role master or slave.
func (s *scene) isA(pod, role string) error {
	answer, err := s.try(pod, "ROLE")
	if words, ok := answer.([]any); ok && words[0] == role {
		return nil
	}
	return fmt.Errorf("%s is no %s: %v (%w)", pod, role, answer, err)
}

// pair returns the pods of a shard whose servers report the roles master and replica.
func (s *scene) pair(shard int) (master, replica string) {
	s.Helper()
	master, replica = fmt.Sprintf("%s-%d-0", name, shard), fmt.Sprintf("%s-%d-1", name, shard)
	s.Until(fmt.Sprintf("shard %d has a master and a replica", shard), func() error {
		if s.isA(master, "master") != nil {
			master, replica = replica, master
		}
		return errors.Join(s.isA(master, "master"), s.isA(replica, "slave"))
	})
	return master, replica
}

// master and replica return the pods of a shard by the role of their servers.
func (s *scene) master(shard int) string  { s.Helper(); pod, _ := s.pair(shard); return pod }
func (s *scene) replica(shard int) string { s.Helper(); _, pod := s.pair(shard); return pod }

// elected waits until a replica has become the master.
func (s *scene) elected(pod string) {
	s.Helper()
	s.Until(pod+" is elected", func() error { return s.isA(pod, "master") })
}

// info returns a section of a server's INFO.
func (s *scene) info(pod, section string) string {
	text, _ := s.try(pod, "INFO", section) // text is nil without an answer
	return fmt.Sprint(text)
}

var offsets = regexp.MustCompile(`slave0:.*offset=(\d+),[^$]*master_repl_offset:(\d+)`)

// inStep waits until replicas have the data of their masters, in memory and in their files. With appendfsync everysec,
// this may take two seconds. A server that is killed earlier has lost the last writes if it starts again before its
// replica is elected.
func (s *scene) inStep() {
	s.Helper()
	for _, pod := range s.pods() {
		s.Until(pod.Name+" is in sync", func() error {
			persistence, replication := s.info(pod.Name, "persistence"), s.info(pod.Name, "replication")
			at := offsets.FindStringSubmatch(replication)
			switch {
			case !strings.Contains(persistence, "aof_buffer_length:0\r") || strings.Contains(persistence, "aof_rewrite_in_progress:1"):
				return errors.New("its file is being written")
			case !strings.Contains(replication, "role:slave") && (at == nil || at[1] != at[2]):
				return errors.New(replication)
			}
			return nil
		})
	}
}

// holdAll ends servers by a signal, and returns a function that lets them start again.
func (s *scene) holdAll(signal syscall.Signal, pods ...string) (release func()) {
	var all sync.WaitGroup
	back := make([]func(), len(pods))
	for i, pod := range pods {
		all.Go(func() { back[i] = s.Hold(pod, "redis", signal) })
	}
	all.Wait()
	return func() {
		for _, release := range back {
			release()
		}
	}
}

// recreate deletes a pod without a grace period and waits until the next pod exists. If an address is given, the next pod gets it.
func (s *scene) recreate(pod, address string) {
	s.Helper()
	if address != "" {
		s.Readdress(pod, address)
	}
	before := s.pod(pod)
	s.Must(suite.API.Delete(s.Ctx, before.DeepCopy(), client.GracePeriodSeconds(0)))
	s.Until("another "+pod, func() error {
		now := s.pod(pod)
		return stage.Unless(now != nil && now.UID != before.UID && now.Status.PodIP != "", "the next pod does not exist yet")
	})
}

// loseVolume deletes a pod and its claim with the data, and waits for the next pod. If an address is given, the next pod gets it.
func (s *scene) loseVolume(pod, address string) {
	s.Helper()
	claim := metav1.ObjectMeta{Namespace: s.Namespace, Name: "data-" + pod}
	s.Must(suite.API.Delete(s.Ctx, &corev1.PersistentVolumeClaim{ObjectMeta: claim}))
	s.recreate(pod, address)
}

// address returns the address of a pod.
func (s *scene) address(pod string) string { return s.pod(pod).Status.PodIP }

// addresses returns the addresses of all pods.
func (s *scene) addresses() (all []string) {
	for _, pod := range s.pods() {
		all = append(all, pod.Status.PodIP)
	}
	return all
}

// judged waits until the status has a verdict.
func (s *scene) judged(verdict string) {
	s.Helper()
	s.Until("the verdict is "+verdict, func() error {
		rc := s.get()
		return stage.Unless(rc.Status.Verdict == verdict, rc.Status.Verdict+": "+rc.Status.Message)
	})
}

// accepts sets the annotation that consents to a loss; an empty loss removes the annotation.
func (s *scene) accepts(loss string) {
	s.Helper()
	value := "null"
	if loss != "" {
		value = fmt.Sprintf("%q", loss)
	}
	s.Must(suite.API.Patch(s.Ctx, s.get(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, redisv1.AnnotationConsent, value))))
}

// servesAll waits until slots are missing and then until all slots are served again. It fails the test if that takes too long.
func (s *scene) servesAll(within time.Duration) {
	s.Helper()
	began := time.Now()
	s.Until("slots are missing", func() error { return stage.Unless(s.get().Status.Slots < redisv1.Slots, "all are served") })
	s.Until("all slots are served", func() error {
		rc := s.get()
		return stage.Unless(rc.Status.Slots == redisv1.Slots, rc.Status.Verdict+": "+rc.Status.Message)
	})
	if took, bound := time.Since(began), harness.Bound(within, full); took > bound {
		s.Errorf("served again after %s, more than %s", took, bound)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/slowdisk"
)

// ids returns the ids of members in the status, by ordinal.
func (s *scene) ids() map[int32]string {
	found := map[int32]string{}
	for _, m := range s.get().Status.Members {
		found[m.Ordinal] = m.ID
	}
	return found
}

// leads returns the ordinals of the leader and of one follower.
func (s *scene) leads() (leader, follower int) {
	s.Helper()
	name, _ := strings.CutPrefix(s.get().Status.Leader, name+"-")
	if _, err := fmt.Sscan(name, &leader); err != nil {
		s.Fatalf("the status names no leader: %v", err)
	}
	if leader == 0 {
		return leader, 1
	}
	return leader, 0
}

// crash kills etcd of a pod, and waits until it has started again.
func (s *scene) crash(ordinal int) {
	s.Helper()
	pod := s.pod(ordinal)
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	s.Must(s.Kill(pod.Name, syscall.SIGKILL, "etcd"))
	s.Eventually("it starts again", func() bool {
		now := s.pod(ordinal)
		return now.Status.ContainerStatuses[0].RestartCount != restarts
	})
}

// loss is a way to lose the volume of a member.
type loss struct {
	name string
	lose func(s *scene, ordinal int)
}

var losses = []loss{
	{"claim and pod deleted", func(s *scene, ordinal int) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.claim(ordinal)}}
		s.Must(suite.API.Delete(s.Ctx, claim))
		s.Must(suite.API.Delete(s.Ctx, s.pod(ordinal).DeepCopy(), client.GracePeriodSeconds(1)))
	}},
	{"folder wiped", func(s *scene, ordinal int) {
		s.Must(s.WipeVolume(s.Ctx, s.claim(ordinal)))
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
	}},
	{"bytes of the log flipped", func(s *scene, ordinal int) {
		folder, err := s.VolumeFolder(s.Ctx, s.claim(ordinal))
		s.Must(err)
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGSTOP, "etcd")) // the stopped etcd writes nothing
		s.Must(etcdtest.FlipWAL(folder))
		s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
	}},
}

// isAnother returns nil if the member of an ordinal has another id than before.
func (s *scene) isAnother(ordinal int, before map[int32]string) error {
	if is := s.ids()[int32(ordinal)]; is == "" || is == before[int32(ordinal)] {
		return fmt.Errorf("member %d is %q", ordinal, is)
	}
	return nil
}

// neverVotedEmpty fails the test unless the agent of a pod waited for a ticket before etcd started, and joined with another id than
// the lost member had.
func (s *scene) neverVotedEmpty(ordinal int, before map[int32]string) {
	s.Helper()
	if err := s.isAnother(ordinal, before); err != nil {
		s.Error(err)
	}
	text, err := s.Log(s.pod(ordinal).Name, "etcd")
	s.Must(err)
	waited := max(strings.LastIndex(text, "waiting: NeedsTicket"), strings.LastIndex(text, "waiting: DataLost"))
	started := strings.LastIndex(text, "starting: ")
	if waited < 0 || started < waited || !strings.Contains(text[started:], "--initial-cluster-state=existing") {
		s.Errorf("pod %d did not wait before it joined:\n%s", ordinal, text[:min(len(text), 2000)])
	}
	if strings.Contains(text[started:], "--initial-cluster-state=new") {
		s.Errorf("pod %d formed a separate cluster", ordinal)
	}
}

// Under load, each fault heals in time. A member that crashes recovers. A member with a lost or damaged volume is replaced by a new member,
// which gets the data from the other members and never votes without the data. The full form, which runs alone, checks the promised times.
func TestFaults(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	runs, ways := 1, losses[2:]
	if full {
		runs, ways = 3, losses
	}
	cluster, load := s.get().Status.ClusterID, s.load()
	for range runs {
		before := s.ids()
		leader, follower := s.leads()
		for _, ordinal := range []int{follower, leader} {
			began := time.Now()
			s.crash(ordinal)
			s.ready(3)
			took := time.Since(began)
			t.Logf("member %d was killed: all three are healthy after %.1f s", ordinal, took.Seconds())
			if full && took > 10*time.Second {
				t.Errorf("the restart of member %d took %s", ordinal, took)
			}
		}
		s.allHeld(func(int) {}) // kills all members
		s.ready(3)
		s.isAsBefore(cluster, before)
		for _, way := range ways {
			before := s.ids()
			leader, _ := s.leads()
			began := time.Now()
			way.lose(s, leader)
			s.Until("it is replaced", func() error { return s.isAnother(leader, before) })
			s.ready(3)
			took := time.Since(began)
			t.Logf("the volume of the leader was lost (%s): three voters again after %.1f s", way.name, took.Seconds())
			if full && took > 60*time.Second {
				t.Errorf("the replacement of the leader took %s", took)
			}
			s.neverVotedEmpty(leader, before)
		}
	}
	load.End(t)
	s.isCluster(cluster)
	s.harmless()
}

// during waits for some time during a fault. It fails the test if the operator changes the membership or deletes a pod.
func (s *scene) during(what string, while time.Duration) {
	s.Helper()
	began := time.Now()
	s.Pass(while)
	n := s.watchdog.had(began, membership.ActionRemove, membership.ActionDeletePod, membership.ActionDeleteClaim, membership.ActionAddLearner)
	if n > 0 {
		s.Errorf("%s: %d changes of the membership", what, n)
	}
}

// The operator changes nothing if members only pause, stutter (as with a slow disk), or cannot reach each other.
func TestPaused(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	cluster, before, load := s.get().Status.ClusterID, s.ids(), s.load()
	while := 3 * time.Second
	if full {
		while = 40 * time.Second // the liveness probe fails during that time
	}
	leader, follower := s.leads()
	for what, ordinal := range map[string]int{"the leader": leader, "a follower": follower} {
		pod := s.pod(ordinal).Name
		s.Must(s.Kill(pod, syscall.SIGSTOP, "etcd"))
		s.unready()
		s.during(what+" is paused", while)
		_ = s.Kill(pod, syscall.SIGCONT, "etcd") // the liveness probe may have ended etcd
		t.Logf("%s was paused for %s: all healthy %.1f s after its continuation", what, while, s.ready(3).Seconds())
	}

	leader, _ = s.leads()
	for end := time.Now().Add(while); time.Now().Before(end); {
		s.Must(s.Kill(s.pod(leader).Name, syscall.SIGSTOP, "etcd"))
		s.during("the leader stutters", 400*time.Millisecond)
		s.Must(s.Kill(s.pod(leader).Name, syscall.SIGCONT, "etcd"))
		s.during("the leader stutters", 200*time.Millisecond)
	}
	t.Logf("the leader stuttered for %s: all healthy %.1f s later", while, s.ready(3).Seconds())

	leader, _ = s.leads()
	for other := range 3 {
		if other != leader {
			s.Cut(s.pod(leader).Name, s.pod(other).Name)
		}
	}
	s.unready()
	s.during("the leader is cut off", while)
	for other := range 3 {
		if other != leader {
			s.Mend(s.pod(leader).Name, s.pod(other).Name)
		}
	}
	t.Logf("the leader was cut off for %s: all healthy %.1f s after the links are restored", while, s.ready(3).Seconds())
	load.End(t)
	s.isAsBefore(cluster, before)
}

// Two of three members lose their data. The status reports the loss, and the operator changes nothing. After the user sets a token, the
// cluster continues with the data of the third member, and grows to three members again.
func TestQuorumLost(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	s.Until("all members have all keys", func() error { return s.check(3) })
	leader, _ := s.leads()
	survivor := s.pod(leader)
	before := s.ids()
	for other := range 3 {
		if other != leader {
			losses[0].lose(s, other)
		}
	}
	s.crash(leader) // an etcd that starts without a quorum answers no client
	s.Until("the status reports it", func() error {
		st := s.get().Status
		if strings.Contains(st.Message, "delete the pod and its claim") {
			t.Fatalf("the operator would delete the last copy: %s", st.Message)
		}
		if st.Phase != etcdv1.PhaseQuorumLost || !strings.Contains(st.Message, "spec.recovery.from to "+survivor.Name) {
			return fmt.Errorf("%s: %s", st.Phase, st.Message)
		}
		return nil
	})
	mark := op.Mark()
	s.during("the quorum is lost", 5*time.Second)
	if sent := op.Since(mark, harness.Sent.WritesObject); len(sent) > 0 {
		t.Errorf("while the quorum was lost: %v", sent)
	}
	began := time.Now()
	s.change("{recovery: {from: Best, token: '1'}}")
	s.ready(3)
	t.Logf("three voters %.1f s after consent", time.Since(began).Seconds())
	s.holds()
	if now := s.ids(); now[int32(leader)] != before[int32(leader)] {
		t.Errorf("the survivor was member %s, and now is %s", before[int32(leader)], now[int32(leader)])
	}
}

// onDisks starts a cluster of three members on disks that a test can slow down or fill.
func onDisks(t *testing.T) (*scene, *slowdisk.Disks) {
	t.Helper()
	harness.Long(t)
	d := slowdisk.New(t)
	s := newScene(t, func(o *emulator.Options) {
		o.Images[image] = emulator.Image{Executables: map[string]string{"etcd": d.Program(o.Images[image].Executables["etcd"])}}
	})
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	return s, d
}

// A member with a slow disk stays a member: no member is removed, no pod is replaced, and the members stay one cluster.
func TestSlowDisk(t *testing.T) {
	s, d := onDisks(t)
	cluster, before, load := s.get().Status.ClusterID, s.ids(), s.load()
	while := 5 * time.Second
	if full {
		while = 40 * time.Second
	}
	for _, c := range []struct {
		leads bool
		delay time.Duration
	}{{false, 300 * time.Millisecond}, {true, 300 * time.Millisecond}, {false, 3 * time.Second}, {true, 3 * time.Second}} {
		ordinal, follower := s.leads()
		if !c.leads {
			ordinal = follower
		}
		pod := s.pod(ordinal).Name
		d.Slow(pod, c.delay)
		s.during("a disk is slow", while)
		n := d.Delayed(pod)
		d.Slow(pod, 0)
		t.Logf("leads: %v; %d syncs took %s longer, for %s: all healthy %.1f s later", c.leads, n, c.delay, while, s.ready(3).Seconds())
		if n == 0 {
			t.Errorf("no sync of %s was slow", pod)
		}
	}
	load.End(t)
	s.isAsBefore(cluster, before)
}

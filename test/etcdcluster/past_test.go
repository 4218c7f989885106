// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/harness"
)

// hold kills etcd of a pod, and prevents its start until the returned function is called.
func (s *scene) hold(ordinal int) (release func()) {
	s.Helper()
	return s.Hold(fmt.Sprintf("%s-%d", name, ordinal), "etcd", syscall.SIGKILL)
}

// saved copies a volume on which no etcd runs. The returned function restores the copy, like storage that restores a snapshot.
func (s *scene) saved(ordinal int) (putBack func()) {
	s.Helper()
	volume, err := s.VolumeFolder(s.Ctx, s.claim(ordinal))
	s.Must(err)
	kept := s.TempDir()
	s.Must(copyOver(kept, volume))
	return func() { s.Helper(); s.Must(copyOver(volume, kept)) }
}

// put writes keys with a prefix to some pods. Each write is acknowledged.
func (s *scene) put(n int, prefix string, ordinals ...int) {
	s.Helper()
	c, err := s.dial(s.some(ordinals)...)
	s.Must(err)
	defer c.Close()
	for i := range n {
		s.Try("write", func() error {
			ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
			defer cancel()
			_, err := c.Put(ctx, fmt.Sprintf("%s/%d", prefix, i), "x")
			return err
		})
	}
}

func (s *scene) some(ordinals []int) (pods []*corev1.Pod) {
	s.Helper()
	for _, ordinal := range ordinals {
		pods = append(pods, s.pod(ordinal))
	}
	return pods
}

// count returns the number of keys with a prefix by a quorum read, or -1 if no pod answers.
func (s *scene) count(prefix string, ordinals ...int) int {
	s.Helper()
	c, err := s.dial(s.some(ordinals)...)
	s.Must(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.Ctx, time.Second)
	defer cancel()
	found, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return -1
	}
	return int(found.Count)
}

// reports waits until the status has a phase and some texts.
func (s *scene) reports(phase etcdv1.Phase, texts ...string) {
	s.Helper()
	s.Until("the status reports it", func() error {
		st := s.get().Status
		if phase != "" && st.Phase != phase {
			return fmt.Errorf("%s: %s", st.Phase, st.Message)
		}
		return harness.Mentions(st.Message, texts...)
	})
}

// noted waits until the annotation of a pod's claim contains the present position of the pod's data, or a later position.
func (s *scene) noted(ordinal int) {
	s.Helper()
	c, err := s.dial(s.pod(ordinal))
	s.Must(err)
	defer c.Close()
	status, err := c.Status(s.Ctx, c.Endpoints()[0])
	s.Must(err)
	s.Until("the claim has the position of the data", func() error {
		var term, index uint64
		text := harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, s.claim(ordinal)).Annotations["etcd.database.coreos.com/position"]
		if _, err := fmt.Sscan(text, &term, &index); err != nil || index < status.RaftAppliedIndex {
			return fmt.Errorf("claim %s has %q, and the member is at %d", s.claim(ordinal), text, status.RaftAppliedIndex)
		}
		return nil
	})
}

// another replaces a held pod by a new pod on the same volume. The new pod is held, too.
func (s *scene) another(ordinal int) {
	s.Helper()
	uid := s.pod(ordinal).UID
	s.Must(suite.API.Delete(s.Ctx, s.pod(ordinal).DeepCopy(), client.GracePeriodSeconds(0)))
	s.Eventually("the new pod exists", func() bool {
		pod := s.pod(ordinal)
		return pod != nil && pod.UID != uid && pod.Status.PodIP != ""
	})
}

// oneDisk stops one of three members, and the two others acknowledge a write. Then one of these two loses its disk, the other is stopped, and
// the first member starts again. The two members without the write must not form a quorum.
func oneDisk(s *scene) {
	leader, follower := s.leads()
	third := 3 - leader - follower
	s.put(10, "before", leader) // after these writes, all members have the list of voters
	back := s.hold(third)
	s.put(1, "acked", leader, follower)
	here, lost := s.hold(leader), s.hold(follower)
	s.Must(s.WipeVolume(s.Ctx, s.claim(follower)))
	before := s.ids()
	back()
	lost()
	s.silent("acked", third, follower)
	s.reports(etcdv1.PhaseQuorumLost)
	here()
	s.Until("it is replaced", func() error { return s.isAnother(follower, before) })
	s.ready(3)
	s.neverVotedEmpty(follower, before)
	assert.Equal(s.T, s.count("acked", follower), 1)
}

// silent expects for some seconds that two pods answer no quorum read, and that the membership does not change.
func (s *scene) silent(prefix string, ordinals ...int) {
	s.Helper()
	for range 6 {
		s.during("no quorum may answer", time.Second)
		if n := s.count(prefix, ordinals...); n >= 0 {
			s.Fatalf("a quorum of %v answers with %d keys", ordinals, n)
		}
	}
}

// ofThePast restores the volume of a member to a state before some acknowledged writes. This member and the member that was stopped during
// the writes would be a quorum without the writes, so the restored member must never vote. In the same pod, the agent's note prevents the
// vote, although the operator did not see the writes. In a new pod, the operator's annotation on the pod's claim prevents it.
func ofThePast(samePod bool) func(*scene) {
	return func(s *scene) {
		leader, old := s.leads()
		third, acked := 3-leader-old, fmt.Sprintf("acked-%t", samePod)
		release := s.hold(old)
		putBack := s.saved(old)
		release()
		s.ready(3)
		away := s.hold(third)
		s.put(300, acked, leader, old)
		if samePod {
			s.Pass(1500 * time.Millisecond) // the agent writes its note twice a second
		} else {
			s.noted(old)
		}
		before := s.ids()
		here, release := s.hold(leader), s.hold(old)
		putBack()
		if !samePod {
			s.another(old)
		}
		release()
		away()
		s.silent(acked, old, third)
		s.reports(etcdv1.PhaseQuorumLost, fmt.Sprintf("pod %d: DataOutdated: the volume has an older state", old))
		here()
		s.Until("it is replaced", func() error { return s.isAnother(old, before) })
		s.ready(3)
		assert.Equal(s.T, s.count(acked, 0, 1, 2), 300)
	}
}

const (
	recordName = name + "-membership"
	recordOf   = "etcd.database.coreos.com/record"
)

// record returns the operator's record of the cluster, or "".
func (s *scene) record() string {
	found := harness.Lookup[*corev1.ConfigMap](s.Journal, recordName)
	if found == nil {
		return ""
	}
	return found.Annotations[recordOf]
}

// forget deletes the record.
func (s *scene) forget() {
	s.Helper()
	s.Must(suite.API.Delete(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: recordName}}))
}

// allHeld calls do for each pod while etcd runs in none.
func (s *scene) allHeld(do func(ordinal int)) {
	s.Helper()
	var release [3]func()
	for ordinal := range release {
		release[ordinal] = s.hold(ordinal)
	}
	for ordinal := range release {
		do(ordinal)
	}
	for _, release := range release {
		release()
	}
}

// claimsGo deletes all claims, as a user may do by mistake, and then ends all containers. No pod is deleted, and the data stays. Then a
// person deletes one pod at a time, and no data is lost.
func claimsGo(s *scene) {
	s.put(20, "before-claims", 0, 1, 2)
	pods := s.uids()
	for ordinal := range 3 {
		s.Must(suite.API.Delete(s.Ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.claim(ordinal)}}))
	}
	s.change(`{podTemplate: {metadata: {annotations: {roll: "1"}}}}`)
	var names []string
	for ordinal := range 3 {
		names = append(names, fmt.Sprintf("%s-%d", name, ordinal))
	}
	loud := "the claims of " + strings.Join(names, ", ") + " are being deleted"
	s.reports("", loud)
	s.during("claims are being deleted", 3*time.Second)
	for ordinal := range 3 {
		s.crash(ordinal)
	}
	s.during("all containers have ended", 4*time.Second)
	s.reports("", loud)
	if now := s.uids(); fmt.Sprint(now) != fmt.Sprint(pods) {
		s.Errorf("pods were %v, and now are %v", pods, now)
	}
	for ordinal := range 3 {
		before := s.ids()
		s.Must(suite.API.Delete(s.Ctx, s.pod(ordinal).DeepCopy(), client.GracePeriodSeconds(1)))
		s.Until("the member is replaced", func() error { return errors.Join(s.isAnother(ordinal, before), s.check(3)) })
	}
	s.ready(3)
	assert.Equal(s.T, s.count("before-claims", 0, 1, 2), 20)
}

// allOfThePast restores all volumes to an earlier state: no etcd starts. With a token of the user, the cluster continues once with the
// newest volume. If GitOps creates the resource again with the same token, the operator does not use the token again, even without its
// record.
func allOfThePast(s *scene) {
	s.put(20, "long-before", 0, 1, 2)
	s.Pass(time.Second) // force-new-cluster keeps only entries that the member has marked as committed, a moment after the write
	var putBack []func()
	s.allHeld(func(ordinal int) { putBack = append(putBack, s.saved(ordinal)) })
	s.ready(3)
	s.put(100, "lately", 0, 1, 2)
	for ordinal := range 3 {
		s.noted(ordinal)
	}
	s.allHeld(func(ordinal int) { putBack[ordinal](); s.another(ordinal) })
	s.reports(etcdv1.PhaseQuorumLost, "has an older state", "spec.recovery.from")
	s.during("nothing starts", 4*time.Second)
	s.change("{recovery: {from: Best, token: '1'}}")
	s.ready(3)
	assert.Equal(s.T, s.count("long-before", 0, 1, 2), 20)
	for ordinal := range 3 {
		s.crash(ordinal)
	}
	s.ready(3) // all members are ready with the earlier data

	s.forget()
	s.Until("the record was created again", func() error { return harness.Mentions(s.record(), `"tokens":"1"`) })
	_, survivor := s.leads()
	for other := range 3 {
		if other != survivor {
			losses[0].lose(s, other)
		}
	}
	s.forget()
	s.reports(etcdv1.PhaseQuorumLost, "The token 1 was used before")
	s.during("the token is used", 4*time.Second)
	s.change("{recovery: {token: '2'}}")
	s.ready(3)
	assert.Equal(s.T, s.count("long-before", 0, 1, 2), 20)

	// All data is lost. The cluster starts again, empty, only with a token of the user.
	for ordinal := range 3 {
		losses[0].lose(s, ordinal)
	}
	s.reports(etcdv1.PhaseQuorumLost, "Empty")
	s.during("all is lost", 4*time.Second)
	s.change("{recovery: {from: Empty, token: '3'}}")
	s.ready(3)
	assert.Equal(s.T, s.count("long-before", 0, 1, 2), 0)
}

// No fault of storage, persons or nodes loses an acknowledged write. internal/etcd/membership explores all orders of these faults in a
// model; here etcd, the agent and Kubernetes are real.
func TestDataOfThePast(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	for _, part := range []struct {
		name   string
		happen func(*scene)
	}{
		{"a lost disk, and a member that was stopped", oneDisk},
		{"an outdated volume in the same pod", ofThePast(true)},
		{"an outdated volume in a new pod", ofThePast(false)},
		{"all claims are deleted", claimsGo},
		{"all volumes are outdated", allOfThePast},
	} {
		began := time.Now()
		part.happen(s)
		t.Logf("%s: %.1f s", part.name, time.Since(began).Seconds())
	}
	if n := s.watchdog.had(time.Time{}, membership.ActionRemove); n == 0 {
		t.Error("the watchdog recorded no effect")
	}
	s.harmless()
}

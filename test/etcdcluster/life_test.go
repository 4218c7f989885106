// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// The sample applies as it is, and is ready with three voters.
func TestSample(t *testing.T) {
	s := newScene(t)
	s.Start(withAgent)
	ec := &etcdv1.EtcdCluster{}
	s.Must(harness.ReadYAML("internal/kinds/etcdcluster/testdata/sample.yaml", ec))
	ec.Namespace = s.Namespace
	s.Must(suite.API.Create(s.Ctx, ec))
	s.Until("a pod runs", func() error {
		if pod := s.pod(0); pod == nil || pod.Status.Phase != corev1.PodRunning {
			return errors.New("it does not")
		}
		return nil
	})
	took := s.ready(3)
	t.Logf("ready with three voters %.1f s after the first pod ran", took.Seconds())
	s.story()
	if took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	s.write()
	s.holds()
}

// ids returns the ids of members, by ordinal, as the status has them.
func (s *scene) ids() map[int32]string {
	found := map[int32]string{}
	for _, m := range s.get().Status.Members {
		found[m.Ordinal] = m.ID
	}
	return found
}

// leads returns the ordinal of the leader, and of one that follows it.
func (s *scene) leads() (leader, follower int) {
	s.Helper()
	name, _ := strings.CutPrefix(s.get().Status.Leader, name+"-")
	if _, err := fmt.Sscan(name, &leader); err != nil {
		s.Fatalf("nobody leads: %v", err)
	}
	if leader == 0 {
		return leader, 1
	}
	return leader, 0
}

// A member that crashes is itself again, also when it is the leader.
func TestPodKilled(t *testing.T) {
	s := newScene(t)
	s.Start(withAgent)
	s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	before := s.ids()
	leader, follower := s.leads()
	for _, ordinal := range []int{follower, leader} {
		pod := s.pod(ordinal)
		restarts := pod.Status.ContainerStatuses[0].RestartCount
		began := time.Now()
		s.Must(s.Kill(pod.Name, syscall.SIGKILL, "etcd"))
		s.Until("it starts again", func() error {
			if now := s.pod(ordinal); now.Status.ContainerStatuses[0].RestartCount == restarts {
				return errors.New("it does not")
			}
			return nil
		})
		s.ready(3)
		took := time.Since(began)
		t.Logf("member %d was killed: all three are well after %.1f s", ordinal, took.Seconds())
		if took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	}
	if after := s.ids(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("members were %v and are %v", before, after)
	}
	s.holds()
}

// neverVotedEmpty fails the test unless the agent of a pod waited for a ticket before etcd began, and joined with another id
// than the member that was lost.
func (s *scene) neverVotedEmpty(ordinal int, before map[int32]string) {
	s.Helper()
	if was, is := before[int32(ordinal)], s.ids()[int32(ordinal)]; was == "" || was == is {
		s.Errorf("member %d was %s and is %s", ordinal, was, is)
	}
	text, err := s.Log(s.pod(ordinal).Name, "etcd")
	s.Must(err)
	waited := max(strings.LastIndex(text, "waiting: NeedsTicket"), strings.LastIndex(text, "waiting: DataLost"))
	started := strings.LastIndex(text, "starting: ")
	if waited < 0 || started < waited || !strings.Contains(text[started:], "--initial-cluster-state=existing") {
		s.Errorf("pod %d did not wait before it joined:\n%s", ordinal, text[:min(len(text), 2000)])
	}
	if strings.Contains(text[started:], "--initial-cluster-state=new") {
		s.Errorf("pod %d made a cluster of its own", ordinal)
	}
}

// A volume that is gone is replaced by a new member, which gets the data from the others and never votes without.
func TestVolumeLost(t *testing.T) {
	for how, lose := range map[string]func(s *scene, ordinal int){
		"claim and pod deleted": func(s *scene, ordinal int) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.claim(ordinal)}}
			s.Must(suite.API.Delete(s.Ctx, claim))
			s.Must(suite.API.Delete(s.Ctx, s.pod(ordinal).DeepCopy(), client.GracePeriodSeconds(1)))
		},
		"folder wiped": func(s *scene, ordinal int) {
			s.Must(s.WipeVolume(s.Ctx, s.claim(ordinal)))
			s.Must(s.Kill(s.pod(ordinal).Name, syscall.SIGKILL, "etcd"))
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.Start(withAgent)
			s.create("{replicas: 3}")
			s.ready(3)
			s.write()
			before := s.ids()
			leader, _ := s.leads()
			began := time.Now()
			lose(s, leader)
			s.unready()
			s.ready(3)
			took := time.Since(began)
			t.Logf("the volume of the leader was lost (%s): three voters again after %.1f s", how, took.Seconds())
			s.story()
			if took > 60*time.Second {
				t.Errorf("it took %s", took)
			}
			s.neverVotedEmpty(leader, before)
			s.holds()
		})
	}
}

// The number of members follows the spec, through 0 and back, and nothing is lost.
func TestScales(t *testing.T) {
	s := newScene(t)
	s.Start(withAgent)
	s.create("{replicas: 1}")
	t.Logf("1 voter after %.1f s", s.ready(1).Seconds())
	s.write()
	cluster := s.get().Status.ClusterID
	for _, replicas := range []int{3, 5, 3, 1, 0, 3} {
		s.change(fmt.Sprintf("{replicas: %d}", replicas))
		began := time.Now()
		if replicas == 0 {
			s.Until("parked", func() error {
				if left := s.pods(); len(left) > 0 || s.get().Status.Phase != etcdv1.PhaseParked {
					return fmt.Errorf("%d pods, phase %s", len(left), s.get().Status.Phase)
				}
				return nil
			})
		} else {
			s.ready(replicas)
			s.holds()
		}
		t.Logf("%d voters after %.1f s", replicas, time.Since(began).Seconds())
	}
	if now := s.get().Status.ClusterID; now != cluster {
		t.Errorf("the cluster was %s and is %s", cluster, now)
	}
}

// Encrypted connections: between members, from the operator and from clients.
func TestEncrypted(t *testing.T) {
	s := newScene(t)
	s.Start(withAgent)
	s.create("{replicas: 3, tls: {mode: Auto}}")
	t.Logf("ready after %.1f s", s.ready(3).Seconds())
	s.write()
	s.holds()
	for _, pod := range s.pods() {
		text, err := s.Log(pod.Name, "etcd")
		s.Must(err)
		if strings.Contains(text, "serving client traffic insecurely") {
			t.Errorf("%s serves clients without encryption", pod.Name)
		}
	}
}

// A cluster that is deleted leaves its data, and one of the same name takes it up.
func TestTakesUpItsData(t *testing.T) {
	s := newScene(t)
	s.Start(withAgent)
	ec := s.create("{replicas: 3}")
	s.ready(3)
	s.write()
	cluster := s.get().Status.ClusterID
	s.Must(suite.API.Delete(s.Ctx, ec))
	s.Until("its pods go", func() error {
		if left := harness.Every[*corev1.Pod](s.Journal); len(left) > 0 {
			return fmt.Errorf("%d pods", len(left))
		}
		return nil
	})
	s.create("{replicas: 3}")
	t.Logf("ready again after %.1f s", s.ready(3).Seconds())
	s.holds()
	if now := s.get().Status.ClusterID; now != cluster {
		t.Errorf("the cluster was %s and is %s", cluster, now)
	}
}

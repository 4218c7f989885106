// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// The next pod is replaced only after the pods of all other members have been ready for WellFor without a restart. So a
// failing change affects only one member. A note names the failed pod. A correction of the change is not delayed.
func TestAFailedChangeGoesNoFurther(t *testing.T) {
	t.Parallel()
	const oom = "container etcd ended: OOMKilled"
	for name, c := range map[string]struct {
		change func(*scene)
		action Action
		says   string
		phase  string
	}{
		"all pods have been ready for long enough": {func(*scene) {}, ActionDeletePod, "replace pod p-1", PhaseUpgrading},
		"a new pod has just become ready": {func(s *scene) {
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor = false, 59*time.Second
		}, ActionWait, "p-1 must first be ready for 1m0s without a restart", PhaseUpgrading},
		"the new pod has been ready for long enough": {func(s *scene) {
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor = false, time.Minute
		}, ActionDeletePod, "replace pod p-2", PhaseUpgrading},
		"only the leader is left, and a new pod has just become ready": {func(s *scene) {
			s.view.Pods[1].Outdated, s.view.Pods[2].Outdated, s.view.Pods[2].WellFor = false, false, time.Second
		}, ActionWait, "p-2 must first be ready for 1m0s without a restart", PhaseUpgrading},
		"the new pod is ready again after it was killed": {func(s *scene) {
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor, s.view.Pods[1].Ended = false, 3*time.Second, oom
		}, ActionWait, "the latest change of the pods failed on p-1 (" + oom + "), and no further pod is replaced: revert or correct that change", PhaseDegraded},
		"the new pod was killed": {func(s *scene) {
			s.down(1)
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor, s.view.Pods[1].Ended, s.view.Pods[1].Problem = false, 0, oom, "OOMKilled"
		}, ActionWait, "the latest change of the pods failed on p-1 (OOMKilled)", PhaseDegraded},
		"five members: a new pod was killed, and another member does not answer": {func(s *scene) {
			s.five()
			s.down(1)
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor, s.view.Pods[1].Ended, s.view.Pods[1].Problem = false, 0, oom, "OOMKilled"
			s.down(4)
		}, ActionWait, "the latest change of the pods failed on p-1 (OOMKilled)", PhaseDegraded},
		"five members: a new pod was killed, and nothing runs in another pod": {func(s *scene) {
			s.five()
			s.down(1)
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor, s.view.Pods[1].Ended, s.view.Pods[1].Problem = false, 0, oom, "OOMKilled"
			s.killed(4)
		}, ActionWait, "the latest change of the pods failed on p-1 (OOMKilled)", PhaseDegraded},
		"the change is corrected": {func(s *scene) {
			s.down(1)
			s.view.Pods[1].WellFor, s.view.Pods[1].Ended, s.view.Pods[1].Problem, s.view.Pods[1].Running = 0, oom, "OOMKilled", false
		}, ActionDeletePod, "delete pod p-1: nothing runs in it (OOMKilled)", PhaseUpgrading},
		"the change is corrected while the failed pod is ready again": {func(s *scene) {
			s.view.Pods[2].WellFor, s.view.Pods[2].Ended = time.Second, oom
		}, ActionDeletePod, "replace pod p-2", PhaseUpgrading},
		"the corrected pod is new, and no quorum answers": {func(s *scene) {
			s.down(1, 2)
			s.view.Pods[1].Outdated, s.view.Pods[1].WellFor, s.view.Pods[1].Ended = false, 0, oom
			s.view.Pods[2].Running = false
		}, ActionDeletePod, "delete pod p-2: nothing runs in it", PhaseQuorumLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			s.want.WellFor = time.Minute
			for i := range s.view.Pods {
				s.view.Pods[i].Outdated, s.view.Pods[i].WellFor = true, time.Hour
			}
			c.change(s)
			d := s.decide()
			assert.Assert(t, len(d.Steps) > 0, d.Model.Reason)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Assert(t, strings.Contains(d.Steps[0].Message, c.says), d.Steps[0].Message)
			assert.Equal(t, d.Model.Phase, c.phase)
		})
	}
}

// five makes the scene a cluster of five members.
func (s *scene) five() {
	s.want.Replicas, s.view.Record.Replicas, s.view.Live = 5, 5, 5
	for i := 3; i < 5; i++ {
		s.list = append(s.list, Member{ID: ID(i + 1), Name: names[i], PeerURLs: allURLs[i : i+1]})
		s.view.Claims = append(s.view.Claims, Claim{Name: claimNames[i], Ordinal: i, UID: claimUIDs[i], Cluster: clusterID, Member: ID(i + 1), Version: "3.6.16", Position: Position{Term: 2, Index: 100}})
		pod, answer := s.view.Pods[1], *s.view.Pods[1].Answer
		answer.Member = ID(i + 1)
		pod.Name, pod.Ordinal, pod.UID, pod.IP, pod.Answer = names[i], i, podUIDs[i], ips[i], &answer
		s.view.Pods = append(s.view.Pods, pod)
	}
}

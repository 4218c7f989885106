// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Steps that keep failing do not block other steps. In each case, all chosen steps fail until the expected step is chosen.
func TestFailingStepsHideNoOthers(t *testing.T) {
	t.Parallel()
	const rest = "no step is left but to wait"
	for name, c := range map[string]struct {
		change func(*scene)
		want   []string // parts of the messages of the steps, in order
	}{
		"outdated pods that nothing runs in": {func(s *scene) {
			s.want.Replicas, s.view.Record.Replicas, s.view.Live = 5, 5, 5
			for _, i := range []int{3, 4} {
				s.view.Pods = append(s.view.Pods, Pod{Name: names[i], Ordinal: i, UID: podUIDs[i], Outdated: true, Problem: "ImagePullBackOff"})
			}
		}, []string{"delete pod p-3", "delete pod p-4", rest}},
		"outdated pods": {func(s *scene) {
			for i := range s.view.Pods {
				s.view.Pods[i].Outdated = true
			}
		}, []string{"replace pod p-1", "replace pod p-2", rest}}, // otherwise p-1 and p-2 would lead alternately
		"outdated pods, one of them leads": {func(s *scene) { s.view.Pods[0].Outdated, s.view.Pods[1].Outdated = true, true },
			[]string{"replace pod p-1", "let p-2 lead", rest}},
		"outdated pods that do not answer": {func(s *scene) {
			s.want.Replicas, s.view.Record.Replicas, s.view.Live = 5, 5, 5
			for _, i := range []int{3, 4} {
				s.list = append(s.list, Member{ID: ID(i + 1), Name: names[i], PeerURLs: allURLs[i : i+1]})
				s.view.Pods = append(s.view.Pods, Pod{Name: names[i], Ordinal: i, UID: podUIDs[i], Outdated: true, Running: true, Problem: "no answer within 2s", Silent: true})
			}
		}, []string{"replace pod p-3", "replace pod p-4", rest}},
		"lost members, and a pod that nothing runs in": {func(s *scene) {
			s.want.Replicas, s.view.Record.Replicas, s.view.Live = 5, 5, 5
			for _, i := range []int{3, 4} {
				s.list = append(s.list, Member{ID: ID(i + 1), Name: names[i], PeerURLs: allURLs[i : i+1]})
				s.view.Pods = append(s.view.Pods, Pod{Name: names[i], Ordinal: i, UID: podUIDs[i], Running: true, Report: &Report{Volume: VolumeEmpty}})
			}
		}, []string{"remove p-3", "remove p-4", rest}},
		"claims without a mark, and an outdated pod": {func(s *scene) {
			s.view.Claims[1].Member, s.view.Claims[2].Member = 0, 0
			s.view.Pods[0].Outdated, s.view.Pods[2].Outdated = true, true
			s.leads(2)
		}, []string{"record on claim data-p-1", "record on claim data-p-2", "replace pod p-0", rest}},
		"claims that are not needed": {func(s *scene) {
			s.vacate(2)
			s.vacate(1)
			s.view.Pods[1].Report.Volume, s.view.Pods[2].Report.Volume = VolumeData, VolumeData
		}, []string{"delete claim data-p-1", "delete claim data-p-2", rest}},
		"a record, which later steps need": {func(s *scene) {
			s.view.Record.Replicas, s.view.Pods[1].Outdated = 1, true
		}, []string{"record that this is cluster c1", rest}},
		"a record, and a pod that nothing runs in": {func(s *scene) {
			s.view.Record.Replicas = 1
			s.down(1)
			s.view.Pods[1].Outdated, s.view.Pods[1].Running = true, false
		}, []string{"record that this is cluster c1", "delete pod p-1: nothing runs in it", rest}},
		"a ticket that is revoked": {func(s *scene) {
			s.view.Pods[0].Ticket, s.view.Pods[1].Outdated = TicketSeed, true
		}, []string{"remove the ticket of p-0", rest}},
		"a corrupt member": {func(s *scene) {
			corrupt(2, 7, 7, 8)(s)
			s.view.Pods[1].Outdated = true
		}, []string{"remove p-2 from the cluster", rest}},
		"databases with unused space": {func(s *scene) { s.unused(0); s.unused(1); s.unused(2) },
			[]string{"rewrite the database of p-1", "rewrite the database of p-2", rest}},
		"databases with unused space, one of the leader": {func(s *scene) { s.unused(0); s.unused(1) },
			[]string{"rewrite the database of p-1", "let p-2 lead", rest}},
		"tokens of a recovery": {func(s *scene) {
			survivorRestarted(s)
			s.view.Record.Tokens, s.view.Record.Survivor = "t", "p-0"
		}, []string{"record on claim data-p-0", "record on claim data-p-1", "record on claim data-p-2", rest}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			for _, want := range c.want {
				d := s.decide()
				assert.Assert(t, len(d.Steps) > 0, d.Model.Reason)
				step := d.Steps[0]
				if want == rest {
					assert.Equal(t, step.Action, ActionWait, step.Message)
					assert.Assert(t, !strings.Contains(step.Message, "no other member can take over"), step.Message)
					assert.Assert(t, strings.Contains(step.Message, "webhook (tried again: "), step.Message)
					assert.Assert(t, d.LookAgain <= 10*time.Second)
					return
				}
				assert.Assert(t, strings.Contains(step.Message, want), step.Message)
				s.view.Failures = append(s.view.Failures, Failure{Step: step.Key(), Cause: "webhook"})
			}
		})
	}
}

// If a position cannot be written to one claim, the positions of the other claims are still written.
func TestAFailingMarkHidesNoOther(t *testing.T) {
	t.Parallel()
	s := newScene()
	for i := range s.view.Pods {
		s.view.Pods[i].Answer.Applied, s.view.Pods[i].Answer.Index, s.view.Claims[i].MarkedFor = 200, 200, markEvery
	}
	for i := range s.view.Claims {
		d := s.decide()
		assert.Assert(t, d.Model.Settled)
		assert.Equal(t, d.Positions[0].Ordinal, i)
		s.view.Failures = append(s.view.Failures, Failure{Step: d.Positions[0].Key(), Cause: "webhook"})
	}
	assert.Equal(t, len(s.decide().Positions), 0)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"

	"gotest.tools/v3/assert"
)

// A change has one phase from its first step to its last one, although members that are added and members that are replaced
// join by the same steps.
func TestPhaseOfAChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*scene)
		previous string
		action   Action
		phase    string
	}{
		"the last member is lost":                     {func(s *scene) { s.empty(2) }, PhaseRunning, ActionRemove, PhaseRecovering},
		"its claim goes":                              {func(s *scene) { s.vacate(2); s.view.Pods[2].Report.Volume = VolumeData }, PhaseRecovering, ActionDeleteClaim, PhaseRecovering},
		"another one is added in its place":           {func(s *scene) { s.vacate(2) }, PhaseRecovering, ActionAddLearner, PhaseRecovering},
		"it starts":                                   {learner(&Report{Volume: VolumeEmpty}, nil), PhaseRecovering, ActionMarkClaim, PhaseRecovering},
		"it votes":                                    {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseRecovering, ActionPromote, PhaseRecovering},
		"its claim says whose it is":                  {func(s *scene) { s.view.Claims[2].Member = 0 }, PhaseRecovering, ActionMarkClaim, PhaseRecovering},
		"more are wanted":                             {func(s *scene) { s.want.Replicas = 4 }, PhaseRunning, ActionRecord, PhaseScaling},
		"one is added":                                {func(s *scene) { s.vacate(2) }, PhaseScaling, ActionAddLearner, PhaseScaling},
		"the added one starts":                        {learner(&Report{Volume: VolumeEmpty}, nil), PhaseScaling, ActionMarkClaim, PhaseScaling},
		"the added one votes":                         {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseScaling, ActionPromote, PhaseScaling},
		"the added one votes in a new cluster":        {learner(nil, &Answer{Learner: true, Applied: 100}), PhaseCreating, ActionPromote, PhaseCreating},
		"a member within is replaced beside a change": {func(s *scene) { s.vacate(1) }, PhaseScaling, ActionAddLearner, PhaseRecovering},
		"a claim that is not wanted goes": {func(s *scene) {
			s.vacate(2)
			s.want.Replicas, s.view.Record.Replicas, s.view.Live, s.view.Pods = 2, 2, 2, s.view.Pods[:2]
			s.view.Claims[2].Member = 3
		}, PhaseScaling, ActionDeleteClaim, PhaseScaling},
		"an upgraded member": {func(s *scene) { s.view.Claims[1].Version = "3.5.35" }, PhaseUpgrading, ActionMarkClaim, PhaseUpgrading},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			c.change(s)
			d := s.decide()
			assert.Assert(t, len(d.Steps) > 0, d.Model.Reason)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Equal(t, PhaseAfter(c.previous, d.Model), c.phase, d.Steps[0].Message)
		})
	}
}

// vacate takes a member out whose pod waits with an empty volume.
func (s *scene) vacate(pod int) {
	s.empty(pod)
	s.list = append(s.list[:pod:pod], s.list[pod+1:]...)
	s.view.Pods[pod].Report.Cluster, s.view.Pods[pod].Report.Member = clusterID, ID(pod+1)
}

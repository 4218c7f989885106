// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"

	"gotest.tools/v3/assert"
)

// Certificate authorities are replaced in phases, each of which begins when every member shows that it is through with the one before.
func TestAuthoritiesAreReplacedInPhases(t *testing.T) {
	t.Parallel()
	at := func(phase AuthorityPhase) func(*scene) {
		return func(s *scene) { s.view.Authorities = &Authorities{Phase: phase, Held: true} }
	}
	then := func(changes ...func(*scene)) func(*scene) {
		return func(s *scene) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	wanted := then(at(AuthoritiesAtRest), func(s *scene) { s.view.Authorities.Wanted = true })
	former := func(pod int) func(*scene) { return func(s *scene) { s.view.Pods[pod].Answer.Trust.Latest = false } }
	for name, c := range map[string]struct {
		change func(*scene)
		action Action // of the first step; none: settled
		pod    string // that is deleted
	}{
		"nothing is asked for":              {at(AuthoritiesAtRest), "", ""},
		"asked for":                         {wanted, ActionRotate, ""},
		"asked for, and a member is down":   {then(wanted, func(s *scene) { s.down(2) }), ActionWait, ""},
		"asked for while a pod is outdated": {then(wanted, func(s *scene) { s.view.Pods[1].Outdated = true }), ActionDeletePod, "p-1"},
		"one does not show what it trusts":  {then(wanted, func(s *scene) { s.view.Pods[1].Answer.Trust = nil }), "", ""},
		"the Secrets are not written yet":   {func(s *scene) { s.view.Authorities = nil }, "", ""},
		"no member trusts the new ones":     {then(at(AuthoritiesTrust), former(0), former(1), former(2)), ActionDeletePod, "p-1"},
		"the leader does not yet":           {then(at(AuthoritiesTrust), former(0)), ActionMoveLeader, ""},
		"one does not, and another is down": {then(at(AuthoritiesTrust), former(1), func(s *scene) { s.down(2) }), ActionWait, ""},
		"all trust the new ones":            {at(AuthoritiesTrust), ActionRotate, ""},
		"clients need time":                 {then(at(AuthoritiesTrust), func(s *scene) { s.view.Authorities.Held = false }), "", ""},
		"one shows a former certificate":    {then(at(AuthoritiesSign), func(s *scene) { s.view.Pods[1].Answer.Trust.Signed = false }), "", ""},
		"all show new certificates":         {at(AuthoritiesSign), ActionRotate, ""},
		"the former ones are dropped":       {then(at(AuthoritiesAtRest), former(2)), ActionDeletePod, "p-2"},
		"a member is none of the pods":      {then(at(AuthoritiesTrust), func(s *scene) { s.list = append(s.list, Member{ID: 9, PeerURLs: []string{"http://elsewhere"}}) }), ActionWait, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene()
			for i := range s.view.Pods {
				s.view.Pods[i].Answer.Trust = &Trust{Latest: true, Signed: true}
			}
			c.change(s)
			d := s.decide()
			if c.action == "" {
				assert.Assert(t, d.Model.Settled, "%+v", d.Steps)
				return
			}
			assert.Assert(t, len(d.Steps) > 0, d.Model.Notes)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Equal(t, d.Steps[0].Pod.Pod, c.pod)
			if c.action == ActionRotate {
				assert.Equal(t, d.Steps[0].Authorities, s.view.Authorities.Phase)
				assert.Equal(t, len(d.Steps[0].Healthy), 3)
				assert.DeepEqual(t, d.Steps[0].Expect, s.list)
			}
		})
	}
}

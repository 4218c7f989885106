// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
)

// What others do, and what an operator does that forgets one of the rules, is found out.
func TestExploreFindsHarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(Want, View) Decision
		left   budget
		says   string
	}{
		"it removes members that do not answer": {func(want Want, view View) Decision {
			c := newCluster(want, view)
			for _, s := range c.voters {
				if c.proven && s.answer == nil {
					return Decision{Steps: []Step{{Action: ActionRemove, Member: s.ID, Via: c.via(s)}}}
				}
			}
			return Decide(want, view)
		}, budget{faults: 1}, "could come back"},
		"it replaces all pods at once": {func(want Want, view View) Decision {
			for i := range view.Pods {
				if p := &view.Pods[i]; p.Outdated && !p.Terminating {
					return Decision{Steps: []Step{{Action: ActionDeletePod, Pod: p.place()}}}
				}
			}
			return Decide(want, view)
		}, budget{changes: 1}, "takes the quorum away"},
		"it promotes at once": {func(want Want, view View) Decision {
			c := newCluster(want, view)
			for _, s := range c.learners {
				return Decision{Steps: []Step{{Action: ActionPromote, Member: s.ID, Via: c.via(s)}}}
			}
			return Decide(want, view)
		}, budget{}, "votes without the data"},
		"it deletes claims that it does not know": {func(want Want, view View) Decision {
			for i := range view.Claims {
				if claim := &view.Claims[i]; len(view.Pods) == want.Replicas && !claim.Terminating && claim.Member != 0 {
					return Decision{Steps: []Step{{Action: ActionDeleteClaim, Ordinal: claim.Ordinal, ClaimUID: claim.UID}}}
				}
			}
			return Decide(want, view)
		}, budget{}, "is deleted, and has the data of member"},
		"it waits for ever": {func(want Want, view View) Decision {
			d := Decide(want, view)
			if len(d.Steps) > 0 && d.Steps[0].Action == ActionPromote {
				d.Steps = nil
			}
			return d
		}, budget{}, "comes to rest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := explore(t, newWorld(3, c.left), 100_000, c.decide)
			if len(e.harm) == 0 || !strings.Contains(e.harm[len(e.harm)-1], c.says) {
				t.Fatalf("what was found in %d states: %v", len(e.how), e.harm)
			}
			t.Log(e.harm[len(e.harm)-1])
		})
	}
}

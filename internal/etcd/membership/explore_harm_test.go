// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"
	"testing"
)

// harms holds variants of the operator, the agent and the plan that each lack one proof. An entry also has the faults
// after which the missing proof causes harm, and a part of the message about that harm.
var harms = map[string]struct {
	decide  func(Want, View) Decision
	left    budget
	says    string
	odd     uint16
	without string // the disabled proof: of the agent, of package server, or of the plan
}{
	"it removes members that do not answer": {func(want Want, view View) Decision {
		c := newCluster(want, view)
		for _, s := range c.voters {
			if c.proven && s.answer == nil {
				return Decision{Steps: []Step{{Action: ActionRemove, Member: s.ID, Via: c.requestTarget(s)}}}
			}
		}
		return Decide(want, view)
	}, budget{faults: 1}, "could come back", 0, ""},
	"it removes an emptied member without a quorum": {func(want Want, view View) Decision {
		c := newCluster(want, view)
		for _, s := range c.voters {
			if r := reportOf(s); !c.proven && r != nil && r.Volume == VolumeEmpty {
				for i := range view.Pods {
					if p := &view.Pods[i]; p.Answer != nil {
						return Decision{Steps: []Step{{Action: ActionRemove, Member: s.ID, Via: p.place()}}}
					}
				}
			}
		}
		return Decide(want, view)
	}, budget{faults: 2}, "changes the members without a quorum", 0, ""},
	"it removes the last member that has the right keys": {func(want Want, view View) Decision {
		c := newCluster(want, view)
		emptied := slices.ContainsFunc(c.voters, func(s *memberState) bool { r := reportOf(s); return r != nil && r.Volume == VolumeEmpty })
		var right, wrong []*memberState
		for _, s := range c.voters {
			switch {
			case s.answer == nil || s.answer.Hash == nil:
			case s.answer.Hash.Sum == 0:
				right = append(right, s)
			default:
				wrong = append(wrong, s)
			}
		}
		if emptied && len(right) == 1 && len(wrong) == 1 {
			return Decision{Steps: []Step{{Action: ActionRemove, Member: right[0].ID, Via: wrong[0].place()}}}
		}
		return Decide(want, view)
	}, budget{faults: 2}, "takes the last data away", oddCorrupt, ""},
	"it replaces all pods at once": {func(want Want, view View) Decision {
		for i := range view.Pods {
			if p := &view.Pods[i]; p.Outdated && !p.Terminating {
				return Decision{Steps: []Step{{Action: ActionDeletePod, Pod: p.place()}}}
			}
		}
		return Decide(want, view)
	}, budget{changes: 1}, "takes the quorum away", 0, ""},
	"it promotes a learner without the data": {func(want Want, view View) Decision {
		c := newCluster(want, view)
		for _, s := range c.learners {
			return Decision{Steps: []Step{{Action: ActionPromote, Member: s.ID, Via: c.requestTarget(s)}}}
		}
		return Decide(want, view)
	}, budget{}, "votes without the data", 0, ""},
	"it deletes the claims of members": {func(want Want, view View) Decision {
		for i := range view.Claims {
			if claim := &view.Claims[i]; len(view.Pods) == want.Replicas && !claim.Terminating && claim.Member != 0 {
				return Decision{Steps: []Step{{Action: ActionDeleteClaim, Ordinal: claim.Ordinal, Claim: claim.at()}}}
			}
		}
		return Decide(want, view)
	}, budget{}, "is deleted, and has the data of member", 0, "the pod is asked again"},
	"it never promotes a learner": {func(want Want, view View) Decision {
		d := Decide(want, view)
		if len(d.Steps) > 0 && d.Steps[0].Action == ActionPromote {
			d.Steps = nil
		}
		return d
	}, budget{}, "comes to rest", 0, ""},
	"the agent does not compare how far the data went": {Decide, budget{faults: 1}, "lacks what it has acknowledged", oddPast, "how far the data went"},
	"the plan does not keep the pods of the live set":  {Decide, budget{faults: 1}, "the plan takes the pod of voter", oddRecord, "the live set"},
	"it deletes pods whose claims are being deleted": {func(want Want, view View) Decision {
		for i := range view.Claims {
			for j := range view.Pods {
				if p := &view.Pods[j]; p.Ordinal == view.Claims[i].Ordinal && view.Claims[i].Terminating && p.Answer == nil && !p.Terminating {
					return Decision{Steps: []Step{p.deletePod()}}
				}
			}
		}
		return Decide(want, view)
	}, budget{faults: 2}, "goes with its claim", oddClaims, "the claim is asked again"},
	"a delayed step replaces a pod without reading its claim again": {Decide, budget{faults: 1, changes: 1, stale: 1}, "goes with its claim", oddClaims, "the claim is asked again"},
	"it trusts the member's name in the alarm": {func(want Want, view View) Decision {
		c := newCluster(want, view)
		for _, alarm := range c.alarms {
			if s := c.member(alarm.Member); s != nil && len(c.voters) == 3 {
				return Decision{Steps: []Step{c.remove(s, nil)}}
			}
		}
		return Decide(want, view)
	}, budget{faults: 1}, "takes data away", oddCorrupt, ""},
	"it does not see the alarm": {func(want Want, view View) Decision {
		for i := range view.Pods {
			if a := view.Pods[i].Answer; a != nil {
				a.Alarms = nil
			}
		}
		return Decide(want, view)
	}, budget{faults: 1}, "comes to rest with an alarm", oddCorrupt, ""},
	"it does not check whether other pods run the template": {func(want Want, view View) Decision {
		for i := range view.Pods {
			view.Pods[i].Revision = ""
		}
		return Decide(want, view)
	}, budget{changes: 2}, "could come back", oddTemplate, ""},
	"it mistakes a container that never started for a container that keeps exiting": {func(want Want, view View) Decision {
		for i := range view.Pods {
			p := &view.Pods[i]
			p.Revision, p.Crashing = "", p.Crashing || p.NotReadyFor > 0
		}
		return Decide(want, view)
	}, budget{changes: 2}, "could come back", oddImage, ""},
	"it assumes that a member answers at the address of its pod":    {Decide, budget{faults: 2, changes: 1}, "takes the quorum away", oddMixed, "who answers"},
	"it does not read which authorities a member trusts":            {Decide, budget{changes: 1}, "do not accept the certificates", oddRotation, "what a member trusts"},
	"a delayed step removes a member without reading its pod again": {Decide, budget{faults: 2, stale: 1}, "late: a member is removed that has its data", oddMends, "the target is asked again"},
	"the tokens of claims and volumes are not read": {func(want Want, view View) Decision {
		for i := range view.Claims {
			if view.Record.Tokens == "" {
				view.Claims[i].Tokens = ""
			}
		}
		for i := range view.Pods {
			if r := view.Pods[i].Report; r != nil {
				r.Token = ""
			}
		}
		return Decide(want, view)
	}, budget{faults: 3}, "a consent is used twice", oddRecord, "recovered"},
}

// reportOf returns the report of the agent in a member's pod, or nil.
func reportOf(s *memberState) *Report {
	if s.pod == nil {
		return nil
	}
	return s.pod.Report
}

// Without any of these proofs, the exploration finds harm.
func TestExploreFindsHarm(t *testing.T) {
	t.Parallel()
	for name, c := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(3, c.left)
			switch {
			case c.without == "recovered":
				w = recovered(t, c.left)
			case c.odd != 0:
				w = odd(t, 3, c.odd, c.left)
			}
			w.without = c.without
			e := explore(t, w, 200_000, c.decide)
			if len(e.harm) == 0 || !strings.Contains(e.harm[len(e.harm)-1], c.says) {
				t.Fatalf("the exploration of %d states did not find the harm: %s", len(e.how), strings.Join(e.harm[max(0, len(e.harm)-4):], "\n"))
			}
			t.Log(e.harm[len(e.harm)-1])
		})
	}
}

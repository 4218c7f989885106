// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"slices"
)

// model returns the model for a verdict.
func (c *cluster) model(verdict Verdict) Model {
	m := Model{Verdict: verdict, Cluster: c.id, Target: c.Record.Version, Voters: len(c.voters), Quorum: quorum(len(c.voters))}
	if m.Target == "" {
		m.Target = c.want.Version
	}
	if len(c.voters) == 0 {
		m.Quorum = 0
	}
	for _, s := range c.members {
		m.Members = append(m.Members, c.stateOf(s))
		if s.answer != nil && (m.Version == "" || newer(m.Version, s.answer.Version)) {
			m.Version = s.answer.Version
		}
	}
	for _, s := range c.healthyBut(nil) {
		if s.pod.Ready {
			m.Healthy++
		}
	}
	if c.leader != nil {
		m.Leader = c.leader.name()
	}
	if text := knownFault(m.Version); text != "" {
		c.note("etcd %s is known to be broken: %s. Set spec.version to %s", m.Version, text, cmp.Or(lastPatch(minor(m.Version), c.want.Path), "a newer patch"))
	}
	if c.want.Replicas > 0 && c.want.Replicas%2 == 0 {
		c.note("%d members tolerate no more failures than %d members: an odd number is better", c.want.Replicas, c.want.Replicas-1)
	}
	return m
}

func (c *cluster) stateOf(s *memberState) MemberState {
	state := MemberState{Name: s.name(), ID: s.ID, Ordinal: s.ordinal}
	if s.answer != nil {
		state.Version, state.Size = s.answer.Version, s.answer.Size
	}
	is, why := c.fateOf(s)
	switch {
	case s.ordinal < 0:
		state.State, state.Message = StateUnknown, "no pod of this cluster runs it"
	case s.Learner && s.answer != nil:
		state.State = StateLearner
	case s.Learner:
		state.State, state.Message = StateStarting, s.pod.trouble()
	case slices.Contains(c.bad, s.ID):
		state.State, state.Message = StateDown, "it is corrupt: its keys differ from the keys of a quorum"
	case c.healthy(s):
		state.State = StateVoter
	case is == lost:
		state.State, state.Message = StateLost, why
	default:
		state.State, state.Message = StateDown, s.pod.trouble()
	}
	return state
}

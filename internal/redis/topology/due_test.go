// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// fail records the failure of a step on the pod on which the step acts.
func (s *scene) fail(step Step) {
	for _, one := range step.Batch {
		s.fail(one)
	}
	if len(step.Batch) > 0 {
		return
	}
	pod := step.Node.Pod
	if pod == "" {
		pod = step.On[0].Pod
	}
	n := s.node(pod)
	n.Failures = append(n.Failures, Failure{Action: step.Action, Mode: step.Mode, Target: step.Subject(), Cause: "webhook"})
}

// Steps that keep failing block no other step. Each case fails all steps until the next step is the expected step.
func TestFailingStepsHideNoOthers(t *testing.T) {
	t.Parallel()
	const rest = "no step is left but to wait"
	alone := func(s *scene) {
		s.nodes = slices.DeleteFunc(s.nodes, func(n Node) bool { return n.Ordinal > 0 })
		s.wanted.Shards, s.record.Shards = []int{1, 1, 1}, []int{1, 1, 1}
		for i := range s.nodes {
			forgetIn(&s.nodes[i], idOf("a-0-1"))
			forgetIn(&s.nodes[i], idOf("a-1-1"))
			forgetIn(&s.nodes[i], idOf("a-2-1"))
		}
		s.record.Nodes = map[string]string{"a-0-0": idOf("a-0-0"), "a-1-0": idOf("a-1-0"), "a-2-0": idOf("a-2-0")}
	}
	for name, c := range map[string]struct {
		shards int
		edits  []edit
		want   []string // parts of the messages of the steps, in order
	}{
		"pods that never served":        {3, []edit{neverUp("a-1-0", "a-1-1")}, []string{"delete pod a-1-0", "delete pod a-1-1", rest}},
		"pods that cannot run":          {3, []edit{stuck("a-1-1", "a-2-1")}, []string{"delete pod a-1-1", "delete pod a-2-1", rest}},
		"pods that do not come up":      {3, []edit{lost(time.Hour, "a-1-1", "a-2-1"), outdated("a-1-1", "a-2-1")}, []string{"delete pod a-1-1", "delete pod a-2-1", rest}},
		"pods that lost their data":     {3, []edit{lost(time.Hour, "a-1-1", "a-2-1"), onAll([]string{"a-1-1", "a-2-1"}, func(n *Node) { n.LostData = true })}, []string{"delete pod a-1-1", "delete pod a-2-1", "forget nodes that are gone"}},
		"replicas that are not in sync": {3, []edit{outdated("a-0-1", "a-1-1"), unlinked("a-0-1"), unlinked("a-1-1")}, []string{"delete pod a-0-1", "delete pod a-1-1", rest}},
		"replicas of an old revision":   {3, []edit{outdated(six...)}, []string{"delete pod a-0-1", "delete pod a-1-1", "delete pod a-2-1", rest}},
		"masters of an old revision":    {3, []edit{outdated("a-0-0", "a-1-0", "a-2-0")}, []string{"make a-0-1 the master", "make a-1-1 the master", "make a-2-1 the master", rest}},
		"masters without a replica":     {3, []edit{alone, outdated("a-0-0", "a-1-0", "a-2-0")}, []string{"delete pod a-0-0", "delete pod a-1-0", "delete pod a-2-0", rest}},
		"a pod that cannot write":       {3, []edit{alone, outdated("a-0-0", "a-1-0"), on("a-0-0", func(n *Node) { n.Unsaved = true })}, []string{"delete pod a-1-0", rest}},
		"only pods that are down":       {3, []edit{alone, lost(time.Hour, "a-0-0", "a-1-0"), outdated("a-0-0", "a-1-0")}, []string{"delete pod a-0-0", "delete pod a-1-0", rest}},
		"lost masters":                  {5, []edit{lost(time.Hour, "a-1-0", "a-2-0")}, []string{"make a-1-1 the master", "make a-2-1 the master", rest}},
		"a lost master whose replica was sent a failover": {5, []edit{lost(time.Hour, "a-1-0", "a-2-0"), sent("a-1-1", time.Second)},
			[]string{"make a-2-1 the master", "waits until this has taken effect: no replica was elected for slots 3276-6552"}},
		"a lost majority": {3, []edit{lost(time.Hour, "a-1-0", "a-2-0")}, []string{"make a-1-1 the master", "make a-2-1 the master", rest}},
		"a lost master that loads": {5, []edit{lost(time.Hour, "a-1-0", "a-2-0"), runs("a-1-0"), on("a-1-0", func(n *Node) { n.Loading = true })},
			[]string{"make a-2-1 the master", rest}},
		"a lost master that may be elected": {5, []edit{lost(time.Second, "a-1-0"), lost(time.Hour, "a-2-0")}, []string{"make a-2-1 the master", "wait for a-1-1 to be elected"}},
		"pods that are removed": {3, []edit{grow, func(s *scene) {
			s.add(4, 0)
			s.add(4, 1)
			s.follow("a-4-1", "a-4-0")
			s.record.Shards = append(s.record.Shards, 2)
		}, wants(2, 2, 2)}, []string{"forget a-3-1", "forget a-4-1", rest}},
		"new masters without functions": {3, []edit{grow, func(s *scene) {
			s.wanted.Shards = append(s.wanted.Shards, 2)
			s.record.Shards = append(s.record.Shards, 2)
			s.add(4, 0)
			s.add(4, 1)
			s.follow("a-4-1", "a-4-0")
			s.node("a-0-0").Functions = "digest"
		}}, []string{"copy functions from a-0-0 to a-3-0", "copy functions from a-0-0 to a-4-0", rest}},
		"masters on one host": {3, []edit{onAll([]string{"a-0-0", "a-1-0", "a-2-0"}, func(n *Node) { n.Host = "h" })},
			[]string{"make a-0-1 on host-1 the master", "make a-1-1 on host-2 the master", "make a-2-1 on host-0 the master", rest}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settled(c.shards)
			for _, change := range c.edits {
				change(s)
			}
			for i, want := range c.want {
				d := s.decide()
				assert.Assert(t, len(d.Steps) > 0, d.Model.Reason)
				step := d.Steps[0]
				if want == rest {
					assert.Equal(t, step.Action, ActionWait, step.Message)
					assert.Assert(t, strings.Contains(d.Model.Reason, "webhook"), d.Model.Reason)
					return
				}
				assert.Assert(t, strings.Contains(step.Message, want), step.Message)
				if i < len(c.want)-1 {
					s.fail(step)
				}
			}
		})
	}
}

// A lost master that cannot be replaced does not block a consent for another shard.
func TestALostMasterHidesNoConsent(t *testing.T) {
	t.Parallel()
	s := settled(3)
	for _, change := range []edit{lost(time.Hour, "a-0-0", "a-1-0", "a-1-1"), runs("a-0-0"), on("a-0-0", func(n *Node) { n.Loading = true }), consent(idOf("a-1-0"))} {
		change(s)
	}
	d := s.decide()
	assert.Equal(t, d.Steps[0].Action, ActionRecord, d.Steps[0].Message)
	assert.Assert(t, strings.Contains(d.Steps[0].Message, "slots 5461-10921 was accepted"), d.Steps[0].Message)
	assert.Assert(t, strings.Contains(d.Model.Reason, "too few masters run to elect another master, and a-0-0: connection refused"), d.Model.Reason)
}

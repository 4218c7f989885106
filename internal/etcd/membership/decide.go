// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Delays until the next pass.
const (
	afterEffect  = 150 * time.Millisecond // after a step: most steps take effect immediately
	afterRefusal = 500 * time.Millisecond // a learner is being added; etcd refuses that for some seconds after the previous change
	whileWaiting = time.Second            // the operator waits, for example for a started operation
	whileStuck   = 10 * time.Second       // a user must act, or the environment must change
	atRest       = 30 * time.Second
)

// Decide returns the model of the cluster and the next steps. It is total and deterministic: it returns one decision for every view, even
// if that decision is to wait for a user. If there are no steps, the model is Settled.
//
// The first rule with a step decides. Each rule repairs what later rules rely on: lost members are removed before others are added, started
// changes are finished, and the member list is corrected. Only then are healthy pods replaced. A rule returns all of its steps, the best
// first. A step that has failed recently is skipped, and the next step of the same rule or of a later rule is used.
func Decide(want Want, view View) Decision {
	c := newCluster(want, view)
	verdict := c.verdict()
	var steps []Step
	for _, rule := range c.rules(verdict) {
		if steps = c.due(rule()); len(steps) > 0 {
			break
		}
	}
	model := c.model(verdict)
	if len(steps) == 0 {
		steps = c.await(verdict)
	}
	if model.Settled = len(steps) == 0; !model.Settled {
		c.phase, c.ongoing = steps[0].phase, c.ongoing || steps[0].ongoing
	}
	model.Phase, model.Ongoing = c.finalPhase(verdict, model.Settled), c.ongoing
	model.Restarts, model.Starts = c.restarts(verdict)
	model.Reason = c.whyLeaving()
	switch {
	case !model.Settled && steps[0].Action == ActionWait:
		model.Reason = join(model.Reason, steps[0].Message)
		steps[0].Message = model.Reason
	case verdict != Complete && verdict != Fresh && verdict != Parked:
		model.Reason = join(model.Reason, c.reason(verdict))
	}
	model.Notes, model.DataLost, model.Corrupt = c.notes, c.dataLost, c.alarmed
	model.NoSpace = c.noSpace() != nil
	if model.Settled || steps[0].Action == ActionWait {
		if quiet := c.due(c.noteAuthority(verdict)); len(quiet) > 0 {
			steps = quiet
		}
	}
	model.Locked = c.locked()
	marked := c.markPositions(steps)
	return Decision{Model: model, Steps: steps, Positions: marked, LookAgain: c.lookAgain(steps, marked)}
}

// await returns the wait step, with the reason for the wait, if no rule returns a step. It returns nil if nothing waits.
func (c *cluster) await(verdict Verdict) []Step {
	phase := c.phase
	if phase == "" {
		phase = PhaseDegraded
	}
	if len(c.waits) > 0 || c.stuck || verdict == QuorumLost || verdict == Degraded || verdict == SplitBrain {
		return c.wait(phase, "%s", c.reason(verdict))
	}
	if len(c.leaving()) > 0 {
		c.stuck = true
		return c.wait(phase, "")
	}
	for _, s := range c.voters {
		if verdict == Complete && !s.pod.Ready {
			c.ongoing = true
			return c.wait(phase, "%s answers, but is not ready: the Service sends no requests to it", s.name())
		}
	}
	return nil
}

// restartWithin limits the time in which a pod must serve after its predecessor was deleted. After that, its member counts as failed.
const restartWithin = 30 * time.Second

// restarts reports whether new pods are the only reason why members do not serve. one is true if exactly one member
// does not serve; all is true if no member serves. Both are false if a pod that does not serve has a known problem.
func (c *cluster) restarts(verdict Verdict) (one, all bool) {
	if verdict != Degraded && verdict != QuorumLost {
		return false, false
	}
	away := 0
	for ordinal := range c.Live {
		p := c.pods[ordinal]
		switch {
		case p == nil:
		case !p.Terminating && p.Answer != nil && p.Answer.Linear:
			continue
		case p.Ready && !p.Terminating, p.isExplained(), p.isEmpty(), p.Locked, p.NotReadyFor >= restartWithin:
			return false, false
		}
		away++
	}
	return away == 1, away == c.Live
}

// whyLeaving names the pods that would lose needed data, because their claims are being deleted. It returns "" if there
// are none.
func (c *cluster) whyLeaving() string {
	leaving := c.leaving()
	if len(leaving) == 0 {
		return ""
	}
	text := fmt.Sprintf("the claims of %s are being deleted: their data would be lost with these pods, so none of these pods is replaced. Set the reclaim policy of their volumes to Retain. ", strings.Join(leaving, ", "))
	if len(c.voters) > len(leaving) || len(c.voters) > 2 {
		return text + "Make a backup, then delete one of these pods at a time, when all other members are well: the deleted pod comes back with a new volume, and copies the data from the other members"
	}
	return text + "Make a backup, and restore it into a new cluster"
}

func join(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

func (c *cluster) verdict() Verdict {
	switch {
	case len(c.ids) > 1:
		return SplitBrain
	case c.want.Replicas == 0:
		return Parked
	case c.fresh():
		return Fresh
	case !c.proven:
		return QuorumLost
	case c.complete():
		return Complete
	default:
		return Degraded
	}
}

// complete reports whether all members are healthy voters in pods of this cluster.
func (c *cluster) complete() bool {
	for _, s := range c.members {
		if s.Learner || s.ordinal < 0 || !c.healthy(s) {
			return false
		}
	}
	return true
}

// fresh reports whether no trace of a cluster exists.
func (c *cluster) fresh() bool {
	if c.id != 0 {
		return false
	}
	for _, p := range c.pods {
		if p.Answer != nil || p.Watched != nil || p.Report != nil && p.Report.Volume != VolumeEmpty {
			return false
		}
	}
	return true
}

func (c *cluster) rules(verdict Verdict) []func() []Step {
	type rules = []func() []Step
	switch verdict {
	case SplitBrain:
		return nil
	case Parked:
		return rules{c.unblock, c.clearLeaving}
	case Fresh:
		return rules{c.unblock, c.form}
	case QuorumLost:
		return rules{c.unblock, c.needed(c.remember), c.revise, c.recover}
	default: // Complete or Degraded
	}
	if c.alarmed && !c.agreed {
		// The comparison of keys may need a voter that cannot start. So the voter's pod is replaced by a pod of the
		// corrected template. Nothing else is changed.
		return rules{c.needed(c.remember), c.revise, c.unblock, c.mendCorrupt}
	}
	return rules{
		c.needed(c.remember), c.needed(c.mendCorrupt), c.needed(c.formed), c.unblock, c.mark, c.removeLost, c.learner, c.strangers, c.clear, c.disarmGone,
		c.space, c.refill, c.shrink, c.roll, c.upgrade, c.grow, c.rotate, c.defrag,
	}
}

func (c *cluster) lookAgain(steps, marked []Step) time.Duration {
	switch {
	case len(marked) > 0 && (len(steps) == 0 || steps[0].Action == ActionWait):
		return afterEffect
	case len(steps) == 0 && (c.markSoon || c.rotating):
		return markEvery
	case len(steps) == 0:
		return atRest
	case steps[0].Action == ActionAddLearner:
		return afterRefusal
	case steps[0].Action != ActionWait:
		return afterEffect
	case c.stuck:
		return whileStuck
	default:
		return whileWaiting
	}
}

func (c *cluster) finalPhase(verdict Verdict, settled bool) string {
	switch {
	case verdict == SplitBrain:
		return PhaseFailed
	case verdict == Parked:
		return PhaseParked
	case verdict == Fresh && len(c.pods) == 0:
		return PhasePending
	case verdict == Fresh:
		return PhaseCreating
	case verdict == QuorumLost && c.Record.Survivor != "":
		return PhaseRecovering
	case verdict == QuorumLost && c.Record.Cluster == 0:
		return PhaseCreating
	case verdict == QuorumLost && c.locked():
		return PhaseDegraded
	case verdict == QuorumLost:
		return PhaseQuorumLost
	case settled:
		return PhaseRunning
	case c.phase != "":
		return c.phase
	default:
		return PhaseDegraded
	}
}

// reason explains a verdict. It begins with the cause, cut to causeLength characters. The details follow.
func (c *cluster) reason(verdict Verdict) string {
	text, cause := c.details(verdict), c.cause()
	if verdict == SplitBrain || cause == "" || strings.HasPrefix(text, cause) {
		return text
	}
	return strings.TrimSuffix(short(cause)+"; "+text, "; ")
}

// locked reports whether members answer but refuse the operator.
func (c *cluster) locked() bool {
	return slices.ContainsFunc(c.Pods, func(p Pod) bool { return p.Locked })
}

// causeLength limits the cause in a status, in characters.
const causeLength = 120

// short cuts a text to causeLength characters. A text that already ends with an ellipsis is not cut again.
func short(text string) string {
	const cut = "…"
	runes := []rune(text)
	if len(runes) <= causeLength {
		return text
	}
	before, _, _ := strings.Cut(string(runes[:causeLength-1]), cut)
	return strings.TrimRight(before, " ,;:") + cut
}

// cause returns the first problem of a member or its pod, or "". A problem that Kubernetes, a container or the agent
// reports comes before the problem that a pod does not answer: the silent pod may only wait for the pod with the
// reported problem.
func (c *cluster) cause() string {
	silent := ""
	judge := func(name string, p *Pod, text string) string {
		if p.isExplained() {
			return name + ": " + text
		}
		if silent == "" {
			silent = name + ": " + text
		}
		return ""
	}
	known := map[int]bool{}
	for _, s := range c.members {
		known[s.ordinal] = true
		switch is, why := c.fateOf(s); {
		case s.ordinal < 0 || c.healthy(s) || s.Learner && s.answer != nil:
		case c.alarmed: // mendCorrupt names the differing members
			return ""
		case is == lost || is == swapped:
			return s.name() + ": " + why
		default:
			if found := judge(s.name(), s.pod, s.pod.trouble()); found != "" {
				return found
			}
		}
	}
	for i := range c.Pods {
		if p := &c.Pods[i]; !known[p.Ordinal] && p.Answer == nil && p.Problem != "" {
			if found := judge(p.Name, p, p.trouble()); found != "" {
				return found
			}
		}
	}
	return silent
}

// details returns the whole explanation of a verdict.
func (c *cluster) details(verdict Verdict) string {
	switch verdict {
	case SplitBrain:
		var ids []string
		for _, id := range c.ids {
			ids = append(ids, id.String())
		}
		return fmt.Sprintf("there is data of %d clusters (%s): the operator changes nothing until you delete the pods and claims of all clusters except one",
			len(ids), strings.Join(ids, ", "))
	case QuorumLost:
		return strings.Join(append([]string{c.whyLost()}, c.waits...), "; ")
	case Parked, Fresh, Complete, Degraded:
	}
	if len(c.waits) > 0 {
		return strings.Join(c.waits, "; ")
	}
	for _, s := range c.members {
		switch {
		case s.ordinal < 0:
			return fmt.Sprintf("no pod of this cluster runs member %s (%s): remove the member with etcdctl if it is not needed", s.ID, s.Name)
		case s.Learner || !c.healthy(s):
			return fmt.Sprintf("%s: %s", s.name(), s.pod.trouble())
		}
	}
	return strings.Join(c.notes, "; ")
}

// PhaseAfter returns the phase to show; previous is the last phase that was shown. While the first members of a new
// cluster are added, the phase stays Creating. During steps that occur in several kinds of changes, the phase of the
// started change stays.
func PhaseAfter(previous string, m Model) string {
	if (m.Ongoing || m.Restarts) && (previous == PhaseScaling || previous == PhaseUpgrading || previous == PhaseRecovering) {
		return previous
	}
	if m.Starts && (previous == PhaseParked || previous == PhaseScaling) {
		return PhaseScaling
	}
	switch m.Phase {
	case PhaseScaling, PhaseDegraded, PhaseRecovering:
		if previous == "" || previous == PhasePending || previous == PhaseCreating {
			return PhaseCreating
		}
	}
	return m.Phase
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"
)

// Delays until the next pass.
const (
	afterEffect  = 150 * time.Millisecond // after a step: most steps take effect immediately
	whileWaiting = time.Second            // the operator waits, for example for a started operation
	whileStuck   = 10 * time.Second       // a user must act, or the environment must change
	atRest       = 30 * time.Second
)

// Decide returns the model of the cluster and the next steps. It is total and deterministic: every observation has one decision, which may
// be to wait for a user. Without steps, the model is Settled.
//
// Rules run in order. Each rule repairs the state that later rules need: nodes see each other, replicas follow their masters, lost masters
// are replaced, slots are whole, and members match the spec. Only then do slots move, pods restart and roles change. A step that failed a
// short time ago is skipped, and the next step is taken.
func Decide(wanted Wanted, record Record, nodes []Node) Decision {
	c := newCluster(wanted, record, nodes)
	c.servedSlots = c.served()
	verdict, reason := c.verdict(c.servedSlots)
	c.findDoubts()
	var steps []Step
	for _, rule := range append([]func() []Step{c.unpark}, c.rules(verdict)...) {
		if steps = c.due(rule()); len(steps) > 0 {
			break
		}
	}
	model := c.model(verdict, reason)
	if len(steps) == 0 && model.Reason != "" && (verdict != Complete || !model.Redundant || c.whyLeaving() != "" || len(c.waits) > 0 || len(c.failing) > 0 || c.refused != "") {
		steps = wait("%s", model.Reason)
	}
	model.Settled = len(steps) == 0
	return Decision{Model: model, Steps: steps, LookAgain: c.lookAgain(verdict, steps)}
}

// rules returns the rules that may run under a verdict, in order. While a node that may hold slots is unknown, or slots are lost or
// contested, no rule takes slots or data from a node.
func (c *cluster) rules(verdict Verdict) []func() []Step {
	type rules = []func() []Step
	if verdict == Parked {
		return rules{c.parked}
	}
	if !c.record.Formed && !c.foreignFormed() {
		return rules{c.neverUp, c.parkUnformed, c.unblock, c.form}
	}
	switch verdict {
	case Inconsistent:
		return rules{c.neverUp, c.stuck, c.settings}
	case Unknown:
		return rules{c.neverUp, c.stuck, c.aloneDown, c.epochs, c.addresses, c.links, c.join, c.replicateEmpty, c.histories, c.consent, c.settings, c.park}
	case DisconnectedIntact:
		return rules{c.neverUp, c.stuck, c.epochs, c.addresses, c.links, c.promoteOverEmptied}
	case MajorityLost:
		return rules{c.neverUp, c.stuck, c.addresses, c.links, c.unblock, c.promote, c.usedConsents, c.histories, c.settings, c.park}
	case SlotsLost, Returning:
		return rules{
			c.neverUp, c.stuck, c.aloneDown, c.epochs, c.addresses, c.links, c.unblock, c.promote, c.acceptPast, c.histories, c.join, c.replicateEmpty, c.outsiders, c.consent,
			c.settings, c.park,
		}
	default: // Complete or Healing
	}
	mending := rules{
		c.neverUp, c.stuck, c.epochs, c.addresses, c.links, c.unblock, c.promote, c.acceptPast, c.usedConsents,
		// Settings and joins precede slot moves, because a move may wait for a setting or a join.
		c.settings, c.early(c.ghosts), c.early(c.join), c.early(c.replicateEmpty), c.histories, c.openSlots, c.agree,
		c.ghosts, c.join, c.outsiders, c.functions, c.replicate, c.acceptedDone, c.outOfStep,
	}
	if c.wanted.Parked {
		return append(mending, c.park)
	}
	if verdict != Complete {
		return mending
	}
	return append(mending, c.moves, c.shrink, c.roll, c.spread)
}

// early returns a rule that may run before open slots are repaired. While an open slot is marked with a node that is
// not a member, the rule does nothing: the repair finds the shard of that node by the node's pod in the record, and the
// rule could change this entry.
func (c *cluster) early(rule func() []Step) func() []Step {
	return func() []Step {
		for _, n := range c.members {
			self := n.self()
			for _, marks := range []map[int]string{self.Importing, self.Migrating} {
				for _, id := range marks {
					if c.byID[id] == nil {
						return nil
					}
				}
			}
		}
		return rule()
	}
}

func sameValues(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(value string) bool { return !slices.Contains(b, value) })
}

// blocked adds the reason why a requested change waits. Later rules still run.
func (c *cluster) blocked(format string, args ...any) []Step {
	c.waits = append(c.waits, fmt.Sprintf(format, args...))
	return nil
}

func (c *cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func (c *cluster) lookAgain(verdict Verdict, steps []Step) time.Duration {
	switch {
	case len(steps) == 0:
		return atRest
	case steps[0].Action != ActionWait:
		return afterEffect
	case verdict == Inconsistent || verdict == SlotsLost && !c.mayReturn() || c.refused != "" && len(c.waits) == 0:
		return whileStuck
	default:
		return whileWaiting
	}
}

// mayReturn reports whether the container of a lost owner of slots runs: such a server may answer at any time.
func (c *cluster) mayReturn() bool {
	for id := range c.owned {
		if n := c.pods[c.podOf[id]]; c.byID[id] == nil && n != nil && n.Running {
			return true
		}
	}
	return false
}

// acceptedDone removes two things from the record: accepted slots that are owned again, and consents that are no longer
// in the annotation. It also marks a consent as used if it names no loss: a consent covers only losses that exist when
// the user gives it.
func (c *cluster) acceptedDone() []Step {
	record := c.copyRecord()
	record.Accepted = record.Accepted.Intersect(c.unowned)
	record.Consents = nil
	for _, value := range c.wanted.Consent {
		if !slices.Contains(record.Consents, value) && (slices.Contains(c.record.Consents, value) || !c.isPending(value)) {
			record.Consents = append(record.Consents, value)
		}
	}
	if record.Accepted.Len() == c.record.Accepted.Len() && sameValues(record.Consents, c.record.Consents) {
		return nil
	}
	return []Step{recordStep(record, "record that all slots are owned again, and which values of accept-data-loss were used")}
}

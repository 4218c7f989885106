// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"
)

// How long until the next look.
const (
	afterEffect  = 150 * time.Millisecond // a step has taken effect, or will in a moment
	whileWaiting = time.Second            // something is under way
	whileStuck   = 10 * time.Second       // a person must act, or the world change
	atRest       = 30 * time.Second
)

// Decide says what comes next. It has an answer for every observation, if only to wait or to say that a
// person must act, and gives the same one for the same observation. Settled, and no steps, is its
// answer when nothing is left to be done.
//
// Rooms are asked in an order in which nothing later can harm what an earlier one has yet to mend: nodes
// see each other, replicas follow their masters, lost masters are replaced, slots are whole, members
// are the right ones, and only then slots move, pods are replaced and roles change. A step that failed a short time
// ago is left out, and the next one is taken.
func Decide(wanted Wanted, record Record, nodes []Node) Decision {
	c := newCluster(wanted, record, nodes)
	c.servedSlots = c.served()
	verdict, reason := c.verdict(c.servedSlots)
	c.findDoubts()
	var steps []Step
	for _, room := range c.rooms(verdict) {
		if steps = c.due(room()); len(steps) > 0 {
			break
		}
	}
	model := c.model(verdict, reason)
	if len(steps) == 0 && model.Reason != "" && (verdict != Complete || !model.Redundant || len(c.waits) > 0 || len(c.failing) > 0 || c.refused != "") {
		steps = wait("%s", model.Reason)
	}
	model.Settled = len(steps) == 0
	return Decision{Model: model, Steps: steps, LookAgain: c.lookAgain(verdict, steps)}
}

// rooms are what may be done under a verdict, in order. Where a node that may hold slots is unknown, or
// slots are lost or contested, only that is done which takes nothing from anybody.
func (c *cluster) rooms(verdict Verdict) []func() []Step {
	type rooms = []func() []Step
	if !c.record.Formed && !c.foreignFormed() {
		return rooms{c.neverUp, c.unblock, c.form}
	}
	switch verdict {
	case Inconsistent:
		return rooms{c.neverUp, c.settings}
	case Unknown:
		return rooms{c.neverUp, c.epochs, c.addresses, c.links, c.join, c.replicateEmpty, c.histories, c.consent, c.settings}
	case DisconnectedIntact:
		return rooms{c.neverUp, c.epochs, c.addresses, c.links}
	case MajorityLost:
		return rooms{c.neverUp, c.addresses, c.links, c.unblock, c.promote, c.usedConsents, c.histories, c.settings}
	case SlotsLost:
		return rooms{c.neverUp, c.epochs, c.addresses, c.links, c.unblock, c.promote, c.histories, c.join, c.replicateEmpty, c.outsiders, c.consent, c.settings}
	default: // Complete or Healing
	}
	mending := rooms{
		c.neverUp, c.epochs, c.addresses, c.links, c.unblock, c.promote, c.usedConsents,
		// Settings and joins come before slots are moved on: one of them may be what a move waits for.
		c.settings, c.early(c.ghosts), c.early(c.join), c.early(c.replicateEmpty), c.histories, c.openSlots, c.agree,
		c.ghosts, c.join, c.outsiders, c.functions, c.replicate, c.acceptedDone, c.outOfStep,
	}
	if verdict != Complete {
		return mending
	}
	return append(mending, c.moves, c.shrink, c.roll, c.spread)
}

// early has a rule run before slots are moved on, unless the mark of an open slot names a node that is no member: the
// record tells which shard goes on in its place.
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

// blocked notes what keeps back a change that was asked for. What comes later in the order may go on.
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

// mayReturn reports whether the server of a lost owner runs: it may answer any moment.
func (c *cluster) mayReturn() bool {
	for id := range c.owned {
		if n := c.pods[c.podOf[id]]; c.byID[id] == nil && n != nil && n.Running {
			return true
		}
	}
	return false
}

// acceptedDone takes slots out of the record whose loss was accepted and that are owned again, and
// consents that are not in the annotation any more. It adds those that name nothing which is lost: consent is for what is
// lost when it is given.
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
	return []Step{recordStep(record, "record that all slots are owned again, and which consents count no more")}
}

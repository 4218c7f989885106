// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// due returns the first candidate that neither failed nor was sent recently. From a batch, it removes the steps that
// failed or were sent recently. It records the causes of failed steps. So a step that keeps failing blocks no other step, and is retried when its
// delay is over. If due skips all candidates, but one candidate was sent recently and may still take effect, due
// returns a wait. Then no later rule runs.
func (c *cluster) due(candidates []Step) []Step {
	var sent []Step
	skips := func(step Step) bool {
		if c.isSent(step) {
			sent = append(sent, step)
			return true
		}
		return c.isHeld(step)
	}
	for _, step := range candidates {
		if len(step.Batch) == 0 {
			if !skips(step) {
				return []Step{step}
			}
			continue
		}
		batch := slices.DeleteFunc(slices.Clone(step.Batch), skips)
		switch len(batch) {
		case 0:
		case len(step.Batch):
			return []Step{step}
		case 1:
			return batch
		default:
			message := fmt.Sprintf("%s, and %d more", batch[0].Message, len(batch)-1)
			return []Step{{Action: step.Action, Message: message, Batch: batch}}
		}
	}
	if len(sent) > 0 {
		return wait("waits until this has taken effect: %s", sent[0].Message)
	}
	return nil
}

// isSent reports whether a step of the same action was sent to the node less than the step's interval ago.
func (c *cluster) isSent(step Step) bool {
	if n := c.pods[step.Node.Pod]; n != nil && n.UID == step.Node.UID {
		since, sent := n.Sent[step.Action]
		return sent && since < step.Interval
	}
	return false
}

// isHeld reports whether a step failed a short time ago, and records the cause.
func (c *cluster) isHeld(step Step) bool {
	if step.Action == ActionMoveSlots {
		held, whole := c.heldSlots(step.Node, step.Target, step.Mode)
		return whole || len(step.Slots.Intersect(held)) > 0
	}
	place := step.Node
	if place.Pod == "" && len(step.On) > 0 {
		place = step.On[0]
	}
	for _, f := range c.failures(place) {
		if f.Action == step.Action && f.Mode == step.Mode && f.Target == step.Subject() && (len(f.Slots) == 0 || len(f.Slots.Intersect(step.Slots)) > 0) {
			c.fails(f)
			return true
		}
	}
	return false
}

// heldSlots returns the slots whose move between two nodes failed a short time ago, in either direction. These slots
// are not moved now. If whole is true, no slot is moved between the two nodes.
func (c *cluster) heldSlots(from, to Place, mode string) (held SlotSet, whole bool) {
	for _, f := range c.failures(from) {
		if f.Action != ActionMoveSlots || f.Mode != mode || f.Target != to.ID {
			continue
		}
		c.fails(f)
		held, whole = held.Union(f.Slots), whole || len(f.Slots) == 0
	}
	for _, f := range c.failures(to) {
		if f.Action == ActionMoveSlots && f.Mode == mode && f.Into {
			c.fails(f)
			whole = true
		}
	}
	return held, whole
}

func (c *cluster) failures(place Place) []Failure {
	if n := c.pods[place.Pod]; n != nil && n.UID == place.UID {
		return n.Failures
	}
	return nil
}

// fails notes the cause of a skipped step.
func (c *cluster) fails(f Failure) {
	if cause := strings.TrimPrefix(f.Cause, "refused: "); !slices.Contains(c.failing, cause) {
		c.failing = append(c.failing, cause)
	}
}

// largest returns the size of the largest value that may be moved. MIGRATE blocks both nodes while it moves a value. If
// that takes longer than the node timeout, the other nodes mark both as failed.
func (c *cluster) largest() int64 {
	const perSecond = 50 << 20
	return min(LargestValue, int64(c.nodeTimeout()/time.Millisecond)*perSecond/1000)
}

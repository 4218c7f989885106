// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "cmp"

// disarmGone ends alarms of removed members. etcd keeps such alarms, and refuses writes because of them.
func (c *cluster) disarmGone() (steps []Step) {
	for _, alarm := range c.alarms {
		if alarm.Kind != AlarmCorrupt && alarm.Member != 0 && c.member(alarm.Member) == nil {
			steps = append(steps, c.do(PhaseRecovering, Step{Action: ActionDisarm, Via: c.requestTarget(nil), Alarm: alarm}, "end the alarm %s of member %s, which was removed", alarm.Kind, alarm.Member)...)
		}
	}
	return steps
}

// noSpace returns the first alarm NOSPACE, or nil.
func (c *cluster) noSpace() *Alarm {
	for i := range c.alarms {
		if c.alarms[i].Kind == AlarmNoSpace {
			return &c.alarms[i]
		}
	}
	return nil
}

// space ends the alarm NOSPACE, during which the cluster refuses writes. It drops the history of keys, and defragments
// one member after the other, the leader last. It ends the alarm once the files are smaller.
func (c *cluster) space() []Step {
	alarm := c.noSpace()
	if alarm == nil {
		return nil
	}
	if !c.want.Maintenance.Compact {
		c.stuck = true
		return c.blocked("the cluster refuses writes: its space is used up (%s). Compact the history (etcdctl compact), run etcdctl defrag and etcdctl alarm disarm, or allow spec.maintenance.compaction", AlarmNoSpace)
	}
	asked := c.leader
	if asked == nil {
		return c.blocked("the space is used up, and the cluster has no leader")
	}
	if !asked.answer.Compacted {
		return c.do(PhaseDegraded, Step{Action: ActionCompact, Via: asked.place(), Revision: asked.answer.Revision},
			"drop the history before revision %d: the space is used up", asked.answer.Revision)
	}
	// Under the alarm, members report too little unused space, so a low threshold is used. A small file and a file that
	// was just rewritten stay below the threshold.
	const unused, atLeast = 3, 2 << 20 // percent, bytes
	if steps := c.defragAbove(PhaseDegraded, unused, atLeast, "because the space is used up"); len(steps) > 0 {
		return steps
	}
	for _, s := range c.voters {
		if !c.healthy(s) {
			return c.blocked("the alarm %s stays until all voters are healthy", AlarmNoSpace)
		}
		if s.answer.Quota > 0 && s.answer.Size > s.answer.Quota/100*95 {
			c.stuck = true
			return c.blocked("the cluster refuses writes: %s has %d bytes of keys, and its quota is %d. Delete keys, or raise spec.config.quota-backend-bytes",
				s.name(), s.answer.Used, s.answer.Quota)
		}
	}
	return c.do(PhaseDegraded, Step{Action: ActionDisarm, Via: asked.place(), Alarm: *alarm}, "end the alarm %s of member %s: there is space again", alarm.Kind, alarm.Member)
}

// defrag frees unused space while no other step is due.
func (c *cluster) defrag() []Step {
	if c.want.Maintenance.DefragPercent <= 0 {
		return nil
	}
	return c.defragAbove(cmp.Or(c.phase, PhaseRunning), int64(c.want.Maintenance.DefragPercent), c.want.Maintenance.DefragAtLeast, "to give unused space back")
}

// defragAbove rewrites the database files of members with too much unused space, one at a time. During the rewrite, the member does not
// answer. Therefore all members must be healthy, and a leader first transfers the leadership, unless it is the only voter.
func (c *cluster) defragAbove(phase string, percent, atLeast int64, why string) (steps []Step) {
	var leader *memberState
	var large []*memberState
	for _, s := range c.voters {
		if s.answer == nil || s.answer.Size < max(atLeast, 1) || (s.answer.Size-s.answer.Used)*100 <= percent*s.answer.Size {
			continue
		}
		if atRest := c.noSpace() == nil; !c.allWell() || atRest && (c.busy() || !c.mayPause(s)) {
			return c.blocked("no database is rewritten now: not all members are well")
		}
		large = append(large, s)
		if s == c.leader {
			leader = s
			continue
		}
		steps = append(steps, c.do(phase, Step{Action: ActionDefrag, Via: s.place(), Healthy: places(c.healthyBut(s)), Ordinal: s.ordinal}, "rewrite the database of %s, %s", s.name(), why)...)
	}
	switch {
	case leader == nil:
		return steps
	case len(c.voters) > 1:
		return append(steps, c.moveLeader(phase, leader, "the database of the present leader must be rewritten", large...)...)
	default:
		return c.do(phase, Step{Action: ActionDefrag, Via: leader.place(), Ordinal: leader.ordinal}, "rewrite the database of %s, %s", leader.name(), why)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
)

// Hash is a voter's hash of its keys. Hashes are comparable while the alarm CORRUPT stops all writes.
type Hash struct {
	Revision  int64 // revision of the voter
	At        int64 // revision at which Sum was computed: the revision of most voters
	Compacted int64 // revision before which the history was dropped
	Sum       uint32
}

// Compare returns the voters whose keys equal those of a quorum of all voters, and the voters with other keys. ok is false if no quorum has
// the same keys. A voter that cannot be compared is in neither list.
func Compare(hashes map[ID]Hash, voters int) (good, bad []ID, ok bool) {
	counts := map[Hash]int{}
	var agreed Hash
	for _, h := range hashes {
		if counts[h]++; h.Revision == h.At && counts[h] >= quorum(voters) {
			agreed, ok = h, true
		}
	}
	if !ok {
		return nil, nil, false
	}
	for id, h := range hashes {
		switch {
		case h == agreed:
			good = append(good, id)
		case h.Revision != agreed.Revision || h.Compacted == agreed.Compacted:
			bad = append(bad, id)
		}
	}
	slices.Sort(good)
	slices.Sort(bad)
	return good, bad, true
}

// compare compares the keys of voters while the alarm CORRUPT is raised. The alarm alone does not show which member is
// wrong: it names a member that differs from the leader, but the leader's keys may be the wrong ones.
func (c *cluster) compare() {
	c.alarmed = slices.ContainsFunc(c.alarms, func(a Alarm) bool { return a.Kind == AlarmCorrupt })
	if !c.alarmed {
		return
	}
	hashes := map[ID]Hash{}
	for _, s := range c.voters {
		if s.answer != nil && s.answer.Hash != nil {
			hashes[s.ID] = *s.answer.Hash
		}
	}
	c.good, c.bad, c.agreed = Compare(hashes, len(c.voters))
}

// mendCorrupt replaces the minority of voters whose keys differ from the keys of the quorum. It ends the alarm when all voters have the
// same keys. If no quorum has the same keys, it changes no member.
func (c *cluster) mendCorrupt() (steps []Step) {
	if !c.alarmed {
		return nil
	}
	if !c.agreed {
		c.stuck = true
		return c.wait(PhaseDegraded, "%s", c.whyCorrupt())
	}
	for _, s := range c.learners {
		if s.ordinal >= 0 {
			steps = append(steps, c.do(PhaseRecovering, c.remove(s, nil), "remove the learner %s: its data may come from a member with wrong keys", s.name())...)
		}
	}
	if len(steps) > 0 {
		return steps
	}
	for _, s := range c.voters {
		if !slices.Contains(c.bad, s.ID) {
			continue
		}
		why := fmt.Sprintf("%s is corrupt: its keys differ from the keys of the %d voters that agree", s.name(), len(c.good))
		others := c.healthyBut(s)
		switch {
		case s.ordinal < 0:
			c.stuck = true
			return append(steps, c.wait(PhaseDegraded, "%s, and no pod of this cluster runs it: remove the member with etcdctl", why)...)
		case len(others) < quorum(len(c.voters)):
			return append(steps, c.wait(PhaseDegraded, "%s. The operator replaces this member when %d of those voters answer", why, quorum(len(c.voters)))...)
		case c.leader == s:
			steps = append(steps, c.moveLeader(PhaseRecovering, s, why)...)
			continue
		}
		step := c.remove(s, others)
		step.Evidence, step.Pod, step.Compared = EvidenceCorrupt, s.place(), c.answering()
		steps = append(steps, c.do(PhaseRecovering, step, "remove %s from the cluster: %s", s.name(), why)...)
	}
	if len(steps) > 0 {
		return steps
	}
	if len(c.good) < len(c.voters) {
		return c.blocked("CORRUPT: the alarm stays until all %d voters can be compared; %d have the same keys", len(c.voters), len(c.good))
	}
	for _, alarm := range c.alarms {
		if alarm.Kind == AlarmCorrupt {
			steps = append(steps, c.do(PhaseRecovering, Step{Action: ActionDisarm, Via: c.requestTarget(nil), Alarm: alarm, Expect: c.list, Compared: c.answering()},
				"end the alarm CORRUPT of member %s: all %d voters have the same keys", alarm.Member, len(c.voters))...)
		}
	}
	return steps
}

// answering returns the voters that answer.
func (c *cluster) answering() (found []Place) {
	for _, s := range c.voters {
		if s.answer != nil {
			found = append(found, s.place())
		}
	}
	return found
}

// whyCorrupt describes the members' keys when no quorum has the same keys.
func (c *cluster) whyCorrupt() string {
	var named, keys []string
	for _, a := range c.alarms {
		if a.Kind != AlarmCorrupt {
			continue
		}
		switch s := c.member(a.Member); {
		case s != nil:
			named = append(named, s.name())
		case a.Member == 0:
			named = append(named, "members that etcd cannot name")
		default:
			named = append(named, "member "+a.Member.String())
		}
	}
	for _, s := range c.voters {
		switch {
		case s.answer == nil:
			keys = append(keys, s.name()+": "+s.pod.trouble())
		case s.answer.Hash == nil:
			keys = append(keys, s.name()+": not compared")
		default:
			keys = append(keys, fmt.Sprintf("%s: hash %08x at revision %d", s.name(), s.answer.Hash.Sum, s.answer.Hash.Revision))
		}
	}
	return fmt.Sprintf("CORRUPT: etcd raised the alarm for %s, and no quorum is known to have the same keys. Reads and writes fail, and the operator changes no member (%s). "+
		"Find out with etcdctl endpoint hashkv which members have the right keys, and remove the other members with etcdctl member remove; or restore a backup into a new cluster",
		strings.Join(named, ", "), strings.Join(keys, "; "))
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
)

// cluster is a view put together: who is a member, who of them is well, and which pod is whose.
type cluster struct {
	want Want
	View

	pods   map[int]*Pod
	claims map[int]*Claim

	ids      []ID // of clusters that anything speaks of, each once
	id       ID   // 0 while unknown
	proven   bool // a quorum agreed to the list of members just now
	list     []Member
	members  []*seat // all members, by ordinal, those that are none of ours last
	voters   []*seat
	learners []*seat
	at       map[int]*seat // by ordinal
	leader   *seat
	alarms   []Alarm
	behind   map[*seat]bool // alive, and far from having all data

	alarmed   bool // there is the alarm CORRUPT
	agreed    bool // and a quorum has the same keys all the same:
	good, bad []ID // the voters that have these, and those that have others

	phase    string // set by the rule that has something to do
	ongoing  bool   // that is the same when a member is added, replaced and upgraded
	waits    []string
	notes    []string
	stuck    bool // a person has to act
	rotating bool // certificate authorities are replaced, and no clients are waited for
	markSoon bool // a claim gets another position in a moment
	dataLost bool // of so many members that the others cannot be a quorum
}

// seat is a member and the pod in which it is, or should be.
type seat struct {
	Member
	ordinal int // -1: none of ours
	pod     *Pod
	claim   *Claim
	answer  *Answer // of this member; nil when it does not answer
}

// lagEntries is how many entries of the log a member may have yet to apply and still counts as being in step.
const lagEntries = 5000

func newCluster(want Want, view View) *cluster {
	c := &cluster{want: want, View: view, pods: map[int]*Pod{}, claims: map[int]*Claim{}, at: map[int]*seat{}, behind: map[*seat]bool{}}
	for i := range view.Pods {
		c.pods[view.Pods[i].Ordinal] = &view.Pods[i]
	}
	for i := range view.Claims {
		c.claims[view.Claims[i].Ordinal] = &view.Claims[i]
	}
	c.identify()
	c.readList()
	c.seatMembers()
	c.compare()
	c.findLeader()
	return c
}

// identify finds out which cluster this is.
func (c *cluster) identify() {
	note := func(id ID) {
		if id != 0 && !slices.Contains(c.ids, id) {
			c.ids = append(c.ids, id)
		}
	}
	note(c.Record.Cluster)
	for i := range c.Pods {
		if p := &c.Pods[i]; p.Answer != nil {
			note(p.Answer.Cluster)
		} else if p.Report != nil {
			note(p.Report.Cluster)
		}
	}
	for i := range c.Claims {
		note(c.Claims[i].Cluster)
	}
	if len(c.ids) > 0 {
		c.id = c.ids[0]
	}
}

// readList takes the list of members from whom a quorum agrees with; of several, from the one that is furthest. Without
// a quorum it is what the members remember, together.
func (c *cluster) readList() {
	var best *Answer
	for i := range c.Pods {
		a := c.Pods[i].Answer
		if a == nil {
			continue
		}
		if a.Linear && (best == nil || a.Applied > best.Applied) {
			best = a
		}
		for _, alarm := range a.Alarms {
			if !slices.Contains(c.alarms, alarm) {
				c.alarms = append(c.alarms, alarm)
			}
		}
	}
	if best != nil {
		c.proven, c.list = true, best.Members
		return
	}
	var latest *Answer
	for i := range c.Pods {
		if a := c.Pods[i].Answer; a != nil && len(a.Members) > 0 && (latest == nil || a.Applied > latest.Applied) {
			latest = a
		}
	}
	if latest != nil {
		c.list = latest.Members
	}
}

func (c *cluster) seatMembers() {
	for _, m := range c.list {
		s := &seat{Member: m, ordinal: c.ordinalOf(m)}
		if s.ordinal >= 0 {
			s.pod, s.claim = c.pods[s.ordinal], c.claims[s.ordinal]
			if s.pod != nil && s.pod.Answer != nil && s.pod.Answer.Member == m.ID {
				s.answer = s.pod.Answer
			}
			c.at[s.ordinal] = s
		}
		c.members = append(c.members, s)
	}
	slices.SortStableFunc(c.members, func(a, b *seat) int {
		if (a.ordinal < 0) != (b.ordinal < 0) {
			return b.ordinal - a.ordinal
		}
		return a.ordinal - b.ordinal
	})
	var furthest uint64
	for _, s := range c.members {
		if s.Learner {
			c.learners = append(c.learners, s)
			continue
		}
		c.voters = append(c.voters, s)
		if s.answer != nil {
			furthest = max(furthest, s.answer.Applied)
		}
	}
	for _, s := range c.members {
		c.behind[s] = s.answer != nil && s.answer.Applied+lagEntries < furthest
	}
}

func (c *cluster) findLeader() {
	for _, s := range c.voters {
		for _, other := range c.voters {
			if other.answer != nil && other.answer.Linear && other.answer.Leader == s.ID {
				c.leader = s
			}
		}
	}
}

// ordinalOf returns the ordinal whose address a member has, or -1.
func (c *cluster) ordinalOf(m Member) int {
	for ordinal, url := range c.want.PeerURLs {
		if slices.Contains(m.PeerURLs, url) {
			return ordinal
		}
	}
	return -1
}

// healthy reports whether a voter answers for the cluster, has the keys of a quorum, and will go on as far as is known.
func (c *cluster) healthy(s *seat) bool {
	return s.answer != nil && s.answer.Linear && !s.pod.Terminating && (!c.alarmed || slices.Contains(c.good, s.ID))
}

// planned returns how many pods the StatefulSet is planned with.
func (c *cluster) planned() int {
	replicas, _ := Planned(c.want, c.Record, c.Live, c.Claims)
	return replicas
}

// isEmpty reports whether the agent in a pod says that its volume has no data.
func (p *Pod) isEmpty() bool { return p.Report != nil && p.Report.Volume == VolumeEmpty }

// losesData reports whether the claim of a pod is being deleted, and nothing shows that the data on it is not needed: by the
// agent's word there is none, or a quorum has removed the member.
func (c *cluster) losesData(ordinal int) bool {
	p, claim := c.pods[ordinal], c.claims[ordinal]
	if p == nil || claim == nil || !claim.Terminating || p.isEmpty() {
		return false
	}
	owner := c.ownerOf(p, claim)
	return !c.proven || owner == 0 || c.member(owner) != nil
}

// leaving returns the names of the pods whose data goes with them.
func (c *cluster) leaving() (found []string) {
	for ordinal := range MaxReplicas {
		if c.losesData(ordinal) {
			found = append(found, c.pods[ordinal].Name)
		}
	}
	return found
}

// deletePod returns the step that deletes a pod.
func (p *Pod) deletePod() Step {
	return Step{Action: ActionDeletePod, Pod: p.place(), Ordinal: p.Ordinal}
}

func (c *Claim) at() ClaimAt { return ClaimAt{c.UID, c.ResourceVersion} }

// healthyBut returns the healthy voters but for one.
func (c *cluster) healthyBut(but *seat) []*seat {
	var found []*seat
	for _, s := range c.voters {
		if s != but && c.healthy(s) {
			found = append(found, s)
		}
	}
	return found
}

func quorum(voters int) int { return voters/2 + 1 }

// allWell reports whether every voter is healthy and in step.
func (c *cluster) allWell() bool {
	for _, s := range c.voters {
		if !c.healthy(s) || c.behind[s] {
			return false
		}
	}
	return c.proven
}

// via returns the member that is asked to change something: the leader, or else any healthy voter.
func (c *cluster) via(but *seat) Place {
	if c.leader != nil && c.leader != but && c.healthy(c.leader) {
		return c.leader.place()
	}
	if well := c.healthyBut(but); len(well) > 0 {
		return well[0].place()
	}
	return Place{}
}

func (s *seat) place() Place {
	place := Place{Member: s.ID}
	if s.pod != nil {
		place = s.pod.place()
	}
	if s.answer != nil {
		place.Cluster = s.answer.Cluster
	}
	return place
}

func (p *Pod) place() Place {
	place := Place{Pod: p.Name, UID: p.UID, IP: p.IP}
	if p.Answer != nil {
		place.Member, place.Cluster = p.Answer.Member, p.Answer.Cluster
	}
	return place
}

func places(seats []*seat) []Place {
	var all []Place
	for _, s := range seats {
		all = append(all, s.place())
	}
	return all
}

// name is what people call a member.
func (s *seat) name() string {
	switch {
	case s.pod != nil:
		return s.pod.Name
	case s.Name != "":
		return s.Name
	default:
		return "member " + s.ID.String()
	}
}

func (c *cluster) member(id ID) *seat {
	for _, s := range c.members {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// trouble says why a pod does not do its part.
func (p *Pod) trouble() string {
	switch {
	case p == nil:
		return "its pod does not exist"
	case p.Terminating:
		return "its pod is being deleted"
	case p.Problem != "":
		return p.Problem
	case !p.Running:
		return "its container does not run"
	case p.Report != nil && p.Report.Volume == VolumeForeign && p.Report.Owner != "":
		return fmt.Sprintf("its volume is a copy of that of pod %s: no member starts on a copy. Restore a backup into a new cluster (spec.restoreFrom) instead", p.Report.Owner)
	case p.Report != nil && p.Report.Waiting != "":
		return p.Report.Waiting
	default:
		return "it does not answer"
	}
}

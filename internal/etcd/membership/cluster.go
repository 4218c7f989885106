// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
)

// cluster combines the parts of a view: the members, their health, and each member's pod.
type cluster struct {
	want Want
	View

	pods   map[int]*Pod
	claims map[int]*Claim
	strays map[int]*Claim // claims that no pod uses and that have data of another cluster; claims does not contain them

	ids      []ID // IDs of clusters in pods, claims and the record, without duplicates
	id       ID   // 0 while unknown
	proven   bool // a quorum confirmed the member list in this pass
	list     []Member
	members  []*memberState // all members by ordinal; members without a pod of this cluster come last
	voters   []*memberState
	learners []*memberState
	at       map[int]*memberState // by ordinal
	leader   *memberState
	alarms   []Alarm
	behind   map[*memberState]bool // members that answer, but have far less data than the others

	alarmed   bool // the alarm CORRUPT is raised
	agreed    bool // a quorum has the same keys, although the alarm is raised
	good, bad []ID // voters with the keys of the quorum, and voters with other keys

	phase    string // phase of the step; the rule that returns the step sets it
	ongoing  bool   // the step also occurs in other changes: while a member is added, replaced or upgraded
	waits    []string
	notes    []string
	stuck    bool // a user must act
	rotating bool // certificate authorities are being replaced, and the operator does not wait for clients
	markSoon bool // a claim will soon need a newer position
	dataLost bool // too many members have lost their data: the others cannot form a quorum
}

// memberState is a member, and the pod in which it runs or should run.
type memberState struct {
	Member
	ordinal int // -1: the member has no pod of this cluster
	pod     *Pod
	claim   *Claim
	answer  *Answer // answer of this member; nil if there is none
}

// lagEntries is the maximum number of log entries by which an up-to-date member may lag behind the others.
const lagEntries = 5000

func newCluster(want Want, view View) *cluster {
	c := &cluster{want: want, View: view, pods: map[int]*Pod{}, claims: map[int]*Claim{}, strays: map[int]*Claim{}, at: map[int]*memberState{}, behind: map[*memberState]bool{}}
	for i := range view.Pods {
		c.pods[view.Pods[i].Ordinal] = &view.Pods[i]
	}
	c.sortClaims(view.Claims)
	c.identify()
	c.readList()
	c.placeMembers()
	c.compare()
	c.findLeader()
	return c
}

// sortClaims separates stray claims from the claims of the cluster. It adds a note on each stray claim, which the
// operator does not change, and on each claim with a malformed annotation.
func (c *cluster) sortClaims(all []Claim) {
	c.Claims = nil
	for i := range all {
		claim := &all[i]
		if c.Record.isStray(claim, c.Live) && c.pods[claim.Ordinal] == nil {
			c.strays[claim.Ordinal] = claim
			c.note("claim %s has data of member %s of cluster %s, and no pod uses the claim: the operator keeps it. Delete the claim if that data is not needed", claim.Name, claim.Member, claim.Cluster)
			continue
		}
		if claim.Malformed != "" {
			c.note("claim %s has a malformed annotation: %s. The operator writes the annotation again when the member answers", claim.Name, claim.Malformed)
		}
		c.Claims = append(c.Claims, *claim)
	}
	for i := range c.Claims {
		c.claims[c.Claims[i].Ordinal] = &c.Claims[i]
	}
}

// identify finds the ids of all clusters that the record, pods and claims name.
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

// readList reads the member list. It uses the list of the member with the highest applied index. If a quorum has
// confirmed the reads of some members, only these members count.
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

func (c *cluster) placeMembers() {
	for _, m := range c.list {
		s := &memberState{Member: m, ordinal: c.ordinalOf(m)}
		if s.ordinal >= 0 {
			s.pod, s.claim = c.pods[s.ordinal], c.claims[s.ordinal]
			if s.pod != nil && s.pod.Answer != nil && s.pod.Answer.Member == m.ID {
				s.answer = s.pod.Answer
			}
			c.at[s.ordinal] = s
		}
		c.members = append(c.members, s)
	}
	slices.SortStableFunc(c.members, func(a, b *memberState) int {
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

// ordinalOf returns the ordinal of a member's peer URL, or -1.
func (c *cluster) ordinalOf(m Member) int {
	for ordinal, url := range c.want.PeerURLs {
		if slices.Contains(m.PeerURLs, url) {
			return ordinal
		}
	}
	return -1
}

// healthy reports whether a voter answers linearizable reads, has the keys of a quorum, and is not being deleted.
func (c *cluster) healthy(s *memberState) bool {
	return s.answer != nil && s.answer.Linear && !s.pod.Terminating && (!c.alarmed || slices.Contains(c.good, s.ID))
}

// planned returns the number of replicas of the planned StatefulSet.
func (c *cluster) planned() int {
	replicas, _ := Planned(c.want, c.Record, c.Live, c.Claims)
	return replicas
}

// isEmpty reports whether the agent in a pod reports that its volume has no data.
func (p *Pod) isEmpty() bool { return p.Report != nil && p.Report.Volume == VolumeEmpty }

// losesData reports whether needed data would be lost with a pod: the pod's claim is being deleted, and the data may be
// needed. The data is not needed if the agent reports an empty volume, or if a quorum has removed the member.
func (c *cluster) losesData(ordinal int) bool {
	p, claim := c.pods[ordinal], c.claims[ordinal]
	if p == nil || claim == nil || !claim.Terminating || p.isEmpty() {
		return false
	}
	owner := c.ownerOf(p, claim)
	return !c.proven || owner == 0 || c.member(owner) != nil
}

// leaving returns the names of pods that would lose needed data, because their claims are being deleted.
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

// healthyBut returns the healthy voters without the given one.
func (c *cluster) healthyBut(but *memberState) []*memberState {
	var found []*memberState
	for _, s := range c.voters {
		if s != but && c.healthy(s) {
			found = append(found, s)
		}
	}
	return found
}

func quorum(voters int) int { return voters/2 + 1 }

// allWell reports whether every voter is healthy and up to date.
func (c *cluster) allWell() bool {
	for _, s := range c.voters {
		if !c.healthy(s) || c.behind[s] {
			return false
		}
	}
	return c.proven
}

// requestTarget returns the member that gets requests for changes: the leader, or else any healthy voter. It never returns the member but.
func (c *cluster) requestTarget(but *memberState) Place {
	if c.leader != nil && c.leader != but && c.healthy(c.leader) {
		return c.leader.place()
	}
	if well := c.healthyBut(but); len(well) > 0 {
		return well[0].place()
	}
	return Place{}
}

func (s *memberState) place() Place {
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

func places(states []*memberState) []Place {
	var all []Place
	for _, s := range states {
		all = append(all, s.place())
	}
	return all
}

// name returns the name of a member for messages: its pod's name, or else its name in etcd, or else its ID.
func (s *memberState) name() string {
	switch {
	case s.pod != nil:
		return s.pod.Name
	case s.Name != "":
		return s.Name
	default:
		return "member " + s.ID.String()
	}
}

func (c *cluster) member(id ID) *memberState {
	for _, s := range c.members {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// trouble returns the reason why a pod does not serve.
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
		return fmt.Sprintf("ForeignVolume: its volume is a copy of the volume of pod %s: no member starts on a copy. Restore a backup into a new cluster (spec.restoreFrom) instead", p.Report.Owner)
	case p.Report != nil && p.Report.Waiting != "":
		return p.Report.reason() + p.Report.Waiting
	default:
		return "it does not answer"
	}
}

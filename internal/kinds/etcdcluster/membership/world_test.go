// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"time"
)

// spots is how many ordinals the model has.
const spots = 4

// world is a model of one cluster: what etcd, Kubernetes and the agents in the pods keep. It is comparable, so that a state
// that was seen before is known again. A member that runs answers; there is a quorum when enough voters run.
type world struct {
	members  [spots + 1]mMember // of etcd's list; those with id 0 are none
	leader   uint8
	pods     [spots]mPod
	volumes  [spots]mVolume
	record   Record
	replicas int // wanted
	set      int // pods that the StatefulSet has
	revision uint8
	ids      uint8 // given so far
	uids     uint8
	clusters uint8  // formed so far
	recorded bool   // one of them was written down
	token    bool   // a person consented to a recovery
	odd      uint8  // which of the odd faults happen
	alarm    uint8  // CORRUPT: 1, and the id of the member that it names
	spoiled  uint8  // the revision whose template is wrong: etcd ends at once
	forces   uint8  // recoveries that were begun
	without  string // which proof is taken out
	held     uint16 // what another operator decided a while ago and has yet to do: which of the exploration's steps; 0: none
	left     budget
}

// The odd faults.
const (
	oddPast     = 1 << iota // the storage puts a volume back to an earlier state
	oddClaims               // claims are deleted while their pods are there
	oddCorrupt              // the keys of a member are wrong
	oddRecord               // the record is an old one, or gone
	oddTemplate             // a template is wrong
	oddMends                // what kept etcd from starting goes away by itself
)

// budget is how much may still happen.
type budget struct{ faults, changes, stale uint8 }

type mMember struct {
	id      uint8
	place   int8
	learner bool
	named   bool // it was started and told its name
	caught  bool // it has the data
}

type phase uint8

const (
	none     phase = iota
	starting       // its container starts in a moment
	waiting        // the agent waits
	running        // etcd runs
	crashing       // etcd ends at once, again and again
)

type mPod struct {
	phase       phase
	uid         uint8
	as          uint8 // the member that runs
	revision    uint8
	terminating bool
	ticket      string
	used        string
}

type mVolume struct {
	uid         uint8
	data        uint8 // whose data; 0: empty
	mark        uint8 // of the agent: whose data was there
	bad         bool  // etcd does not start on it
	old         bool  // it lacks what its member has acknowledged
	wrong       bool  // its keys are not those of the others
	terminating bool
	claim       uint8 // the member that the claim's annotation names
	high, token bool  // it says how far the data goes, and that the recovery's token was used
	forced      bool  // the recovery's token was used
}

func (w *world) member(id uint8) *mMember {
	for i := range w.members {
		if id != 0 && w.members[i].id == id {
			return &w.members[i]
		}
	}
	return nil
}

func (w *world) voters() (all, run, intact int) {
	for _, m := range w.members {
		if m.id == 0 || m.learner {
			continue
		}
		all++
		if w.runs(m.id) {
			run++
		}
		if w.intact(&m) {
			intact++
		}
	}
	return all, run, intact
}

// intact reports whether a member's data is there.
func (w *world) intact(m *mMember) bool {
	v := w.volumes[m.place]
	p := w.pods[m.place]
	goes := v.terminating && (p.phase == none || p.terminating)
	return v.uid != 0 && v.data == m.id && !v.bad && !v.old && !v.wrong && !goes
}

// runs reports whether a member's etcd runs.
func (w *world) runs(id uint8) bool {
	m := w.member(id)
	return m != nil && w.pods[m.place].phase == running && w.pods[m.place].as == id
}

func (w *world) quorate() bool {
	all, run, _ := w.voters()
	return all > 0 && run >= quorum(all)
}

// elect finds a leader when there is none, or it does not run.
func (w *world) elect() {
	if m := w.member(w.leader); m != nil && !m.learner && w.runs(w.leader) && w.quorate() {
		return
	}
	w.leader = 0
	if !w.quorate() {
		return
	}
	for _, m := range w.members {
		if m.id != 0 && !m.learner && w.runs(m.id) {
			w.leader = m.id
			return
		}
	}
}

// The names of things in the model, made once.
var names, allURLs, claimNames, podUIDs, claimUIDs, ips = func() (n, u, c, pu, cu, i []string) {
	for k := range 256 {
		n, u, c = append(n, fmt.Sprintf("p-%d", k)), append(u, fmt.Sprintf("http://p-%d:2380", k)), append(c, fmt.Sprintf("data-p-%d", k))
		pu, cu, i = append(pu, fmt.Sprint("u", k)), append(cu, fmt.Sprint("c", k)), append(i, fmt.Sprint("ip", k))
	}
	return n, u, c, pu, cu, i
}()

func urls() []string { return allURLs[:spots] }

func (w *world) want() Want {
	want := Want{Replicas: w.replicas, Version: "3.6.16", PeerURLs: urls(), ReplaceAfter: time.Minute}
	if w.token {
		want.Recovery = Recovery{From: RecoverBest, Token: "t"}
	}
	return want
}

func (w *world) list() []Member {
	var list []Member
	for _, m := range w.members {
		if m.id == 0 {
			continue
		}
		name := ""
		if m.named {
			name = names[m.place]
		}
		list = append(list, Member{ID: ID(m.id), Name: name, PeerURLs: allURLs[m.place : m.place+1], Learner: m.learner})
	}
	slices.SortFunc(list, func(a, b Member) int { return int(a.ID) - int(b.ID) })
	return list
}

// view is what Observe would give.
func (w *world) view() View {
	view := View{Record: w.record, Live: w.set}
	for i := range w.pods {
		p, v := w.pods[i], w.volumes[i]
		if v.uid != 0 {
			claim := Claim{ResourceVersion: v.version(), Name: claimNames[i], Ordinal: i, UID: claimUIDs[v.uid], Terminating: v.terminating, Member: ID(v.claim)}
			if v.claim != 0 {
				claim.Cluster, claim.Version, claim.Tokens = 1, "3.6.16", tokensOf(v.token)
				if v.high {
					claim.Position = Position{1, 10000}
				}
			}
			view.Claims = append(view.Claims, claim)
		}
		if p.phase == none {
			continue
		}
		pod := Pod{
			Name: names[i], Ordinal: i, UID: podUIDs[p.uid], IP: ips[p.uid], Running: p.phase != starting && p.phase != crashing,
			Terminating: p.terminating, Outdated: p.revision != w.revision, Ticket: p.ticket, Revision: names[p.revision],
		}
		switch p.phase {
		case crashing:
			pod.Crashing, pod.NotReadyFor = true, time.Hour
		case waiting:
			report := &Report{Volume: VolumeEmpty, Used: p.used}
			if v.data != 0 {
				report.Volume, report.Member, report.Cluster = VolumeData, ID(v.data), 1
				if v.bad {
					report.Damage = "bad"
				}
				if v.old {
					report.Outdated, report.Waiting, report.Position = "old", "old", Position{1, 5000}
				}
				if v.forced {
					report.Token = "t"
				}
			} else if v.mark != 0 {
				report.Member, report.Cluster = ID(v.mark), 1
			}
			pod.Report = report
		case running:
			pod.Answer, pod.Ready = w.answer(p.as), true
		case none, starting:
		}
		view.Pods = append(view.Pods, pod)
	}
	return view
}

func (w *world) answer(id uint8) *Answer {
	a := &Answer{Cluster: 1, Member: ID(id), Version: "3.6.16", Leader: ID(w.leader), Term: 1, Index: 10000, Applied: 10000}
	m := w.member(id)
	if w.alarm != 0 {
		a.Alarms = []Alarm{{ID(w.alarm - 1), AlarmCorrupt}}
	}
	if m != nil && w.alarm != 0 && !m.learner {
		a.Hash = &Hash{Revision: 5, At: 5}
		if w.volumes[m.place].wrong {
			a.Hash.Sum = 1
		}
	}
	if m != nil && m.learner {
		a.Learner, a.Leader = true, ID(w.leader)
		if !m.caught {
			a.Applied = 1
		}
		return a
	}
	a.Members = w.list()
	a.Linear = m != nil && w.quorate()
	return a
}

// version is that of the claim: it is another one with other annotations.
func (v *mVolume) version() string {
	return fmt.Sprint(v.claim, v.high, v.token, v.terminating)
}

func tokensOf(used bool) string {
	if used {
		return "t"
	}
	return ""
}

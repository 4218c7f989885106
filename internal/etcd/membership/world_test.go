// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"time"
)

// spots is the number of ordinals of the model.
const spots = 4

// world is a model of one cluster: the state of etcd, of Kubernetes, and of the agents in the pods. It is comparable, so that repeated
// states are recognised. A running member answers, unless it has found no quorum since its start (mute). A quorum exists if enough voters
// run.
type world struct {
	members  [spots + 1]mMember // etcd's member list; ID 0 means no member
	leader   uint8
	pods     [spots]mPod
	volumes  [spots]mVolume
	record   Record
	replicas int // wanted replicas
	set      int // replicas of the StatefulSet
	revision uint8
	ids      uint8 // number of used IDs
	uids     uint8
	clusters uint8  // number of formed clusters
	recorded bool   // a cluster was recorded
	token    bool   // the user consents to a recovery
	usual    uint8  // possible usual faults, one bit for each of usualFaults
	odd      uint16 // possible odd faults
	mixed    uint8  // 0, or 1 plus a place: this place and the next one have exchanged their addresses since the observation
	alarm    uint8  // the alarm CORRUPT: 1 plus the ID of the named member
	spoiled  uint8  // revision with a wrong template: etcd exits immediately
	room     uint8  // pods from this ordinal on cannot be scheduled; 0: all can
	forces   uint8  // number of started recoveries
	secrets  mFiles // the Secrets of all pods
	rotation mRotation
	without  string // the disabled proof
	held     uint16 // number of a step that another operator has delayed; 0: none
	left     budget
}

// The odd faults.
const (
	oddPast     = 1 << iota // the storage restores an earlier state of a volume
	oddClaims               // claims are deleted while their pods exist
	oddCorrupt              // a member has wrong keys
	oddRecord               // the record is old or missing
	oddTemplate             // a template is wrong
	oddMends                // the cause that prevents etcd from starting disappears
	oddImage                // a template names an image that does not exist: no container starts
	oddMixed                // pods have exchanged their addresses since the operator's observation
	oddRotation             // the certificate authorities are replaced
)

// mFiles is the content of the certificate Secrets. signer is the authority that has signed the certificates. trusted
// contains a bit for each trusted authority.
type mFiles struct{ signer, trusted uint8 }

// mRotation is the replacement of the certificate authorities.
type mRotation struct {
	phase  uint8 // index in authorityPhases
	wanted bool
}

var authorityPhases = []AuthorityPhase{AuthoritiesAtRest, AuthoritiesTrust, AuthoritiesSign}

// budget limits the events that may still happen.
type budget struct{ faults, changes, stale uint8 }

type mMember struct {
	id      uint8
	place   int8
	learner bool
	named   bool // the member was started and has published its name
	caught  bool // the member has the data
}

type phase uint8

const (
	none     phase = iota
	starting       // the container starts next
	waiting        // the agent waits
	running        // etcd runs
	crashing       // etcd exits immediately, again and again
)

type mPod struct {
	phase       phase
	uid         uint8
	as          uint8 // the running member
	revision    uint8
	terminating bool
	ticket      string
	used        string
	files       mFiles // files in the pod's volumes
	trusts      uint8  // authorities that etcd read at its start
	mute        bool   // etcd has found no quorum since its start and answers no client
}

type mVolume struct {
	uid         uint8
	data        uint8 // member that owns the data; 0: no data
	mark        uint8 // the agent's mark: the member that owned the data, also after the data is lost
	bad         bool  // etcd does not start on the data
	old         bool  // the data lacks entries that its member has acknowledged
	wrong       bool  // the keys differ from those of the others
	terminating bool
	claim       uint8 // member in the claim's annotation
	high, token bool  // high: the claim stores the position of the data; token: the claim stores the token of the recovery
	forced      bool  // the volume stores the used token of the recovery
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
			run = max(run, w.reaches(&m))
		}
		if w.intact(&m) {
			intact++
		}
	}
	return all, run, intact
}

// reaches returns the number of running voters to which a running voter has a connection, including itself.
func (w *world) reaches(from *mMember) (found int) {
	for _, to := range w.members {
		if to.id != 0 && !to.learner && w.runs(to.id) && w.connect(from.place, to.place) {
			found++
		}
	}
	return found
}

// connect reports whether the members at two places accept each other's certificates.
func (w *world) connect(a, b int8) bool {
	p, q := &w.pods[a], &w.pods[b]
	return a == b || w.odd&oddRotation == 0 || p.trusts&(1<<q.files.signer) != 0 && q.trusts&(1<<p.files.signer) != 0
}

// intact reports whether a member's data exists.
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

// elect elects a leader if there is none or the leader does not run.
func (w *world) elect() {
	if m := w.member(w.leader); m != nil && !m.learner && w.runs(w.leader) && w.quorate() {
		return
	}
	w.leader = 0
	if !w.quorate() {
		return
	}
	for i := range w.pods {
		w.pods[i].mute = false
	}
	for _, m := range w.members {
		if all, _, _ := w.voters(); m.id != 0 && !m.learner && w.runs(m.id) && w.reaches(&m) >= quorum(all) {
			w.leader = m.id
			return
		}
	}
}

// Precomputed names of the model.
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

// view returns the observation of the world.
func (w *world) view() View {
	view := View{Record: w.record, Live: w.set, Claims: w.claims()}
	if w.odd&oddRotation != 0 {
		view.Authorities = &Authorities{Phase: authorityPhases[w.rotation.phase], Wanted: w.rotation.wanted, Held: true}
	}
	for i := range w.pods {
		p, v := w.pods[i], w.volumes[i]
		if p.phase == none {
			continue
		}
		pod := Pod{
			Name: names[i], Ordinal: i, UID: podUIDs[p.uid], IP: ips[p.uid], Running: p.phase != starting && p.phase != crashing,
			Terminating: p.terminating, Outdated: p.revision != w.revision, Ticket: p.ticket, Revision: names[p.revision],
		}
		if w.neverStarts(&p) || w.lacksRoom(i) {
			pod.NotReadyFor = time.Hour
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
					report.Outdated, report.Waiting, report.Position = "old", "old", Position{Term: 1, Index: 5000}
				}
				if v.forced {
					report.Token = "t"
				}
			} else if v.mark != 0 {
				report.Member, report.Cluster = ID(v.mark), 1
			}
			pod.Report = report
		case running:
			if p.mute {
				pod.Silent, pod.Watched = true, &Report{Volume: VolumeData, Cluster: 1, Member: ID(p.as), Position: Position{Term: 1, Index: 10000}}
				break
			}
			pod.Answer, pod.Ready = w.answer(p.as), true
		case none, starting:
		}
		view.Pods = append(view.Pods, pod)
	}
	w.mix(view.Pods)
	return view
}

func (w *world) claims() []Claim {
	all := make([]Claim, 0, spots)
	for i, v := range w.volumes {
		if v.uid == 0 {
			continue
		}
		claim := Claim{ResourceVersion: v.version(), Name: claimNames[i], Ordinal: i, UID: claimUIDs[v.uid], Terminating: v.terminating, Member: ID(v.claim)}
		if v.claim != 0 {
			claim.Cluster, claim.Version, claim.Tokens = 1, "3.6.16", tokensOf(v.token)
			if v.high {
				claim.Position = Position{Term: 1, Index: 10000}
			}
		}
		all = append(all, claim)
	}
	return all
}

// mix exchanges the answers of two pods, as if the operator had confused their addresses. It drops their reports: the
// operator ignores a report with the peer URL of another pod.
func (w *world) mix(pods []Pod) {
	at := func(ordinal uint8) *Pod {
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.Ordinal == int(ordinal) })
		if i < 0 {
			return nil
		}
		return &pods[i]
	}
	if w.mixed == 0 {
		return
	}
	a, b := at(w.mixed-1), at(w.mixed)
	if a == nil || b == nil {
		return
	}
	a.Answer, b.Answer = b.Answer, a.Answer
	a.Report, b.Report, a.Watched, b.Watched = nil, nil, nil, nil
	for _, p := range []*Pod{a, b} {
		if p.Answer != nil && w.without == "who answers" {
			p.Answer.Member = ID(w.volumes[p.Ordinal].claim)
		}
	}
}

// neverStarts reports whether the container of a pod cannot start.
func (w *world) neverStarts(p *mPod) bool {
	return w.odd&oddImage != 0 && w.spoiled != 0 && p.phase == starting && p.revision == w.spoiled
}

// lacksRoom reports whether the pod of an ordinal cannot be scheduled.
func (w *world) lacksRoom(i int) bool { return w.room != 0 && i >= int(w.room) }

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
	if m != nil && w.odd&oddRotation != 0 && w.without != "what a member trusts" {
		p := &w.pods[m.place]
		a.Trust = &Trust{Latest: p.trusts == w.secrets.trusted, Signed: p.files == w.secrets}
	} else if w.odd&oddRotation != 0 {
		a.Trust = &Trust{Latest: true, Signed: true}
	}
	if m != nil && m.learner {
		a.Learner, a.Leader = true, ID(w.leader)
		if !m.caught {
			a.Applied = 1
		}
		return a
	}
	a.Members = w.list()
	all, _, _ := w.voters()
	a.Linear = m != nil && w.quorate() && w.reaches(m) >= quorum(all)
	return a
}

// version returns the resourceVersion of the claim, which changes with the claim's annotations.
func (v *mVolume) version() string {
	return fmt.Sprint(v.claim, v.high, v.token, v.terminating)
}

func tokensOf(used bool) string {
	if used {
		return "t"
	}
	return ""
}

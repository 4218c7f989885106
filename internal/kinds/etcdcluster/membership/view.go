// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strconv"
	"time"
)

// MaxReplicas is how many members a cluster may have.
const MaxReplicas = 9

// ID is the id of a member or of a cluster, as etcd makes them. It is written in hexadecimal, as etcdctl does.
type ID uint64

// String returns the id in hexadecimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText returns the id in hexadecimal; 0, which is none, as nothing.
func (id ID) MarshalText() ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = 0
		return nil
	}
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return fmt.Errorf("read the id %q of a member or cluster: %w", text, err)
	}
	*id = ID(n)
	return nil
}

// Want is what the resource asks for.
type Want struct {
	Replicas int // voters, 0 to MaxReplicas; 0 parks the cluster
	// Version is that of etcd, such as 3.6.16. Several minors are walked one at a time.
	Version string
	// Path are the last patches of the minors that lead to other ones, such as 3.5.35, in any order.
	Path []string
	// Pinned reports whether there is one image, of Version alone.
	Pinned bool
	// PeerURLs are the addresses at which members reach each other, by ordinal, for all ordinals up to MaxReplicas.
	PeerURLs []string
	// ReplaceAfter is how long a member may crash before its volume is given up. 0 is never.
	ReplaceAfter time.Duration
	Recovery     Recovery
	Maintenance  Maintenance
}

// Recovery is the consent to go on with the data of one member after a quorum was lost.
type Recovery struct {
	// From is the name of the pod whose data is to live on, RecoverBest, or RecoverEmpty.
	From string
	// Token makes it happen once. Empty: no consent.
	Token string
}

// The values of Recovery.From that are no names of pods.
const (
	RecoverBest  = "Best"  // the surviving member with the newest data
	RecoverEmpty = "Empty" // nothing survives: begin again with an empty cluster
)

// Maintenance is what is done to the databases of members.
type Maintenance struct {
	// Compact reports whether the operator may drop the history of keys when the space is used up.
	Compact bool
	// DefragPercent is how much of a database file may be unused before it is rewritten. 0 is never.
	DefragPercent int
	// DefragAtLeast is the size of a database file in bytes below which it is not worth it.
	DefragAtLeast int64
}

// View is everything that was seen of a cluster in one pass.
type View struct {
	Record Record
	Pods   []Pod   // those that exist, by ordinal
	Claims []Claim // those that exist, by ordinal
	// Live is how many pods the StatefulSet has at present; 0 for none, or no StatefulSet.
	Live int
	// Authorities are those of certificates. Nil: the operator makes none, or the Secrets do not have them yet.
	Authorities *Authorities
	// Lagging reports whether Kubernetes has not looked at the latest StatefulSet yet, so that nobody knows
	// which pods are outdated.
	Lagging bool
}

// Record is what is decided once and then planned by: an annotation on an object that the plan makes and that
// lives as long as the resource. The claims outlive it.
type Record struct {
	// Cluster is the id of the cluster, from the moment that it was first seen. 0: none was formed yet.
	Cluster ID `json:"cluster,omitempty"`
	// Replicas is how many pods the StatefulSet has while the cluster is not parked.
	Replicas int `json:"replicas,omitempty"`
	// Version is that of etcd in the pods' template.
	Version string `json:"version,omitempty"`
	// Scheme is that of the addresses at which members know each other, http or https.
	Scheme string `json:"scheme,omitempty"`
	// Tokens are those of all recoveries that were begun, the latest one last, with spaces between them.
	Tokens string `json:"tokens,omitempty"`
	// Survivor is the pod that the recovery goes on with, until it is done.
	Survivor string `json:"survivor,omitempty"`
}

// Planned returns what the StatefulSet of a cluster is planned with: how many pods, and which version of etcd. Both
// change in steps, which Decide records. A record that is lost, old or edited takes nothing away: there are never fewer
// pods than the StatefulSet has (live), and where it has none, than there are claims with data. The step ActionScale
// alone takes pods away. The version is never a minor before that of all data.
func Planned(want Want, record Record, live int, claims []Claim) (replicas int, version string) {
	lowest, newest := "", ""
	leaving, marked := false, 0
	for i := range claims {
		claim := &claims[i]
		if claim.Member == 0 {
			continue
		}
		leaving = leaving || claim.Terminating && claim.Ordinal < live
		marked = max(marked, claim.Ordinal+1)
		if v := claim.Version; v != "" {
			if lowest == "" || newer(lowest, v) {
				lowest = v
			}
			if newer(v, newest) {
				newest = v
			}
		}
	}
	version = record.Version
	switch {
	case version == "" && newest != "":
		version = newest
	case version == "":
		version = want.Version
	case lowest != "" && newer(minor(lowest)+".0", minor(version)+".0"):
		version = lowest
	}
	switch {
	case want.Replicas == 0 && leaving:
		return live, version // the data of pods whose claims are being deleted goes with them
	case want.Replicas == 0:
		return 0, version
	case live > 0:
		return max(record.Replicas, live), version
	default:
		return max(1, record.Replicas, marked), version
	}
}

// NotListening is the Problem of a pod in which nothing listens at etcd's port.
const NotListening = "etcd does not listen"

// Pod is a pod of the cluster: what Kubernetes says of it, and what runs in it says.
type Pod struct {
	Name    string
	Ordinal int
	UID     string
	IP      string // empty while it has none

	Running     bool // its etcd container runs, be it the agent or etcd
	Ready       bool
	Terminating bool
	Outdated    bool // its revision is not the one that the StatefulSet wants
	Revision    string

	// Crashing reports whether etcd has ended by itself again and again since the pod became unready; NotReadyFor is
	// since when it is not ready.
	Crashing    bool
	NotReadyFor time.Duration
	// Silent reports whether etcd does not answer in time, for which there is no other reason.
	Silent bool
	// Locked reports whether etcd answers that the operator needs an account of etcd's own.
	Locked bool
	// Problem says in a few words why the pod does not come up, or does not answer. Empty if it does.
	Problem string

	Ticket string // the annotation on the pod

	Report *Report // what the agent says; nil when it does not answer, which it does not while etcd runs
	Answer *Answer // what etcd says; nil when it does not answer
}

// Claim is the volume claim of an ordinal.
type Claim struct {
	Name        string
	Ordinal     int
	UID         string
	Terminating bool
	Cluster     ID // of which cluster its data is; 0 is unknown
	Member      ID // and of which member
	Version     string
	// Position is the state that its data had when the member was last seen running, and MarkedFor how long ago that was
	// written.
	Position  Position
	MarkedFor time.Duration
	// Tokens are those of recoveries of the cluster, with spaces between them.
	Tokens string
	// ResourceVersion is that of the claim as it was seen.
	ResourceVersion string
}

// mark returns what the claim's annotations say.
func (c *Claim) mark() Mark { return Mark{c.Cluster, c.Member, c.Version, c.Position, c.Tokens} }

// Position is a place in the log of a cluster: the term and the index of an entry.
type Position struct {
	Term  uint64 `json:"term,omitempty"`
	Index uint64 `json:"index,omitempty"`
}

// Before reports whether a log that ends at p lacks entries of one that ends at q.
func (p Position) Before(q Position) bool {
	return p.Term < q.Term || p.Term == q.Term && p.Index < q.Index
}

// Volume is what an agent found on its volume.
type Volume string

// The states of a volume.
const (
	VolumeEmpty Volume = "Empty" // no data at all
	VolumeData  Volume = "Data"  // data with a mark: of Report.Member of Report.Cluster, as far as it knows them
	// VolumeForeign is data without the agent's mark. Nobody knows whose it is, so it is never touched.
	VolumeForeign Volume = "Foreign"
)

// Report is what the agent in a pod says while it has not started etcd: the JSON that it answers.
type Report struct {
	Volume  Volume `json:"volume"`
	Cluster ID     `json:"cluster,omitempty"` // of the mark; 0 where a seed could not know it yet
	Member  ID     `json:"member,omitempty"`  // of the mark
	// Used is the last ticket that was used in this pod, also when the volume was lost afterwards.
	Used string `json:"used,omitempty"`
	// Token is that of the last recovery of this volume.
	Token string `json:"token,omitempty"`
	// Damage is what shows that the data is not what etcd wrote, so that it does not start on it. Empty for nothing.
	Damage string `json:"damage,omitempty"`
	// Position is where the log of the data ends.
	Position
	// Outdated says why the data is older than the data that the member had. The agent starts no such data. Empty if it is
	// not.
	Outdated string `json:"outdated,omitempty"`
	// Owner is the pod that foreign data belongs to, as NAMESPACE/NAME. Empty while unknown.
	Owner string `json:"owner,omitempty"`
	// Waiting says what it waits for.
	Waiting string `json:"waiting,omitempty"`
}

// Answer is what etcd in a pod says.
type Answer struct {
	Cluster ID
	Member  ID
	Leader  ID // 0: it knows none
	Learner bool
	Version string // of the server, such as 3.6.16

	// Linear reports whether it answered a linearizable read: then a quorum agrees with it, and Members is the
	// list of the cluster and no memory of the past. Never for a learner.
	Linear  bool
	Members []Member // as it knows them; empty for a learner
	// Trust is nil where the operator makes no certificates, or the member does not show them.
	Trust  *Trust
	Alarms []Alarm

	Term, Index, Applied uint64
	Revision             int64
	Size, Used           int64 // bytes of the database file, and of these in use
	Quota                int64 // bytes; 0 is unknown
	// Compacted reports whether the history before Revision has been dropped. It is asked for while there is an alarm.
	Compacted bool
	// Hash is that of its keys. It is asked for while there is the alarm CORRUPT.
	Hash *Hash
}

// Position returns how far the member has applied its log.
func (a *Answer) Position() Position { return Position{a.Term, a.Applied} }

// Member is a line of the list of members.
type Member struct {
	ID       ID
	Name     string // empty until it was started
	PeerURLs []string
	Learner  bool
}

// The alarms of etcd.
const (
	AlarmNoSpace = "NOSPACE"
	AlarmCorrupt = "CORRUPT"
)

// Alarm is an alarm that a member raised.
type Alarm struct {
	Member ID
	Kind   string
}

// The tickets, as the annotation on a pod says them.
const (
	TicketSeed  = "seed"   // form a new cluster
	TicketNone  = "none"   // takes a ticket back
	ticketJoin  = "join:"  // and the id of a member that was added and has never been started
	ticketForce = "force:" // and the token of a recovery
)

// JoinTicket is the ticket of a member that was added.
func JoinTicket(id ID) string { return ticketJoin + id.String() }

// ForceTicket is the ticket of the survivor of a recovery.
func ForceTicket(token string) string { return ticketForce + token }

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strconv"
	"time"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// MaxReplicas is the maximum number of members of a cluster.
const MaxReplicas = 9

// ID is the id of a member or of a cluster, as etcd generates it. Its text is hexadecimal, as in etcdctl.
type ID uint64

// String returns the id in hexadecimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText returns the id in hexadecimal, and an empty text for 0.
func (id ID) MarshalText() ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText parses the text of MarshalText.
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

// Want is the desired state from the spec.
type Want struct {
	Replicas int // voters, 0 to MaxReplicas; 0 parks the cluster
	// Version is the version of etcd, such as 3.6.16. Minors are upgraded one at a time.
	Version string
	// Path holds the last patches of intermediate minors, such as 3.5.35, in any order.
	Path []string
	// Pinned reports whether only one image is given, of Version.
	Pinned bool
	// PeerURLs are the members' peer URLs, by ordinal, for all ordinals below MaxReplicas.
	PeerURLs []string
	// WellFor is the time for which a pod must have been ready without a restart before the next one is replaced.
	WellFor time.Duration
	// ReplaceAfter is the time that a member may crash before it is replaced and its volume deleted. 0 disables that.
	ReplaceAfter time.Duration
	Recovery     Recovery
	Maintenance  Maintenance
}

// Recovery is the consent to continue with the data of one member after a loss of the quorum.
type Recovery struct {
	// From is the name of the pod that keeps its data, RecoverBest, or RecoverEmpty.
	From string
	// Token allows one recovery. Empty: no consent.
	Token string
}

// The values of Recovery.From that are not names of pods.
const (
	RecoverBest  = "Best"  // the surviving member with the newest data
	RecoverEmpty = "Empty" // no data survives: start an empty cluster
)

// Maintenance configures the maintenance of the members' databases.
type Maintenance struct {
	// Compact reports whether the operator may drop the history of keys when the space is used up.
	Compact bool
	// DefragPercent is the unused part of a database file, in percent, above which it is rewritten. 0 disables that.
	DefragPercent int
	// DefragAtLeast is the minimum size in bytes of a database file that is rewritten.
	DefragAtLeast int64
}

// View holds the observation of a cluster in one pass.
type View struct {
	Record Record
	Pods   []Pod   // existing pods, by ordinal
	Claims []Claim // existing claims, by ordinal
	// Live is the number of replicas of the StatefulSet; 0 without one.
	Live int
	// Authorities are the certificate authorities. Nil: the operator creates none, or the Secrets do not have them yet.
	Authorities *Authorities
	// Lagging reports whether Kubernetes has not processed the latest StatefulSet yet. Until then it is unknown which pods are outdated.
	Lagging bool
	// Failures are steps that failed and are not due again yet.
	Failures []Failure
}

// Failure is a failed step.
type Failure struct {
	Step  string // its Key
	Cause string
}

// Record holds decisions that the plan follows. It is an annotation on a planned object that lives as long as the resource. The claims
// outlive it.
type Record struct {
	// Cluster is the id of the cluster, since its first observation. 0: none was formed yet.
	Cluster ID `json:"cluster,omitempty"`
	// Replicas is the number of replicas of the StatefulSet while the cluster is not parked.
	Replicas int `json:"replicas,omitempty"`
	// Version is the version of etcd in the pod template.
	Version string `json:"version,omitempty"`
	// Scheme is the scheme of the members' peer URLs, http or https.
	Scheme string `json:"scheme,omitempty"`
	// Tokens are the tokens of all started recoveries, separated by spaces, the latest last.
	Tokens string `json:"tokens,omitempty"`
	// Survivor is the pod that the recovery continues with, until it is completed.
	Survivor string `json:"survivor,omitempty"`
	// Authority identifies the certificate authorities whose certificates all members accepted. It is empty while that is unknown, and
	// after no pod was left.
	Authority Fingerprint `json:"authority,omitzero"`
}

// Fingerprint holds the SHA-256 sums of the certificates of two authorities, in hexadecimal.
type Fingerprint struct {
	Clients string `json:"clients,omitempty"`
	Members string `json:"members,omitempty"`
}

// versions returns the lowest and the newest version after another one, which may be empty.
func versions(lowest, newest, other string) (string, string) {
	switch {
	case other == "":
		return lowest, newest
	case lowest == "":
		return other, other
	case newer(lowest, other):
		lowest = other
	}
	if newer(other, newest) {
		newest = other
	}
	return lowest, newest
}

// Planned returns the number of replicas of the StatefulSet and the version of etcd. Both change in steps, which Decide records. A lost,
// old or edited record removes no pod. The number is at least that of the StatefulSet (live), or, without a StatefulSet, that of claims
// with data of the recorded cluster. Only ActionScale removes pods. The version is never a lower minor than that of all data.
func Planned(want Want, record Record, live int, claims []Claim) (replicas int, version string) {
	lowest, newest := "", ""
	leaving, marked := false, 0
	for i := range claims {
		claim := &claims[i]
		if !claim.mayHaveData() || record.isStray(claim, live) {
			continue
		}
		leaving = leaving || claim.Terminating && claim.Ordinal < live
		if claim.Malformed == "" || record.Cluster == 0 {
			marked = max(marked, claim.Ordinal+1)
		}
		lowest, newest = versions(lowest, newest, claim.Version)
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
		return live, version // the data of pods with a deleted claim is lost with the pods
	case want.Replicas == 0:
		return 0, version
	case live > 0:
		return max(record.Replicas, live), version
	default:
		return max(1, record.Replicas, marked), version
	}
}

// isStray reports whether a claim has data of another cluster than the recorded one, and no planned pod uses it. live is the number of replicas
// of the StatefulSet.
func (r *Record) isStray(claim *Claim, live int) bool {
	return r.Cluster != 0 && claim.Cluster != 0 && claim.Cluster != r.Cluster && claim.Ordinal >= max(r.Replicas, live)
}

// NotListening is the Problem of a pod that does not listen on etcd's port.
const NotListening = "etcd does not listen"

// Pod is a pod of the cluster, as observed from Kubernetes, its agent and its etcd.
type Pod struct {
	Name    string
	Ordinal int
	UID     string
	IP      string // empty until assigned

	Running     bool // its etcd container runs, whether the agent or etcd
	Ready       bool
	Terminating bool
	Outdated    bool // its revision is not the latest of the StatefulSet
	Revision    string

	// WellFor is the time for which the pod has been ready without a restart. Ended describes the last end of a container; empty if none has.
	WellFor time.Duration
	Ended   string

	// Crashing reports whether etcd has kept exiting since the pod became unready. NotReadyFor is the time since then.
	Crashing    bool
	NotReadyFor time.Duration
	// Silent reports whether etcd does not answer in time, without any other known reason.
	Silent bool
	// Locked reports whether etcd requires an etcd user, or whether etcd and the operator do not accept each other's certificates.
	Locked bool
	// Problem is a short reason why the pod does not start or answer. Empty if it does.
	Problem string

	Ticket string // the annotation on the pod

	Report *Report // of the agent; nil if it does not answer, as while etcd runs
	// Watched is the report of the agent next to a running etcd that does not answer. etcd answers no client until it has found a quorum.
	Watched *Report
	Answer  *Answer // of etcd; nil if it does not answer
}

// Claim is the volume claim of an ordinal.
type Claim struct {
	Name        string
	Ordinal     int
	UID         string
	Terminating bool
	Cluster     ID // that its data belongs to; 0 if unknown
	Member      ID // that its data belongs to
	Version     string
	// Position is the end of its data when the member was last observed running. MarkedFor is the time since it was written.
	Position  Position
	MarkedFor time.Duration
	// Tokens are the tokens of the cluster's recoveries, separated by spaces.
	Tokens string
	// Malformed describes an annotation that is not in the operator's format. The data may be of any member then. Empty: there is none.
	Malformed string
	// ResourceVersion is the resource version of the observed claim.
	ResourceVersion string
}

// mayHaveData reports whether the claim's annotations name a member, or cannot be read.
func (c *Claim) mayHaveData() bool { return c.Member != 0 || c.Malformed != "" }

// mark returns the claim's annotations.
func (c *Claim) mark() Mark { return Mark{c.Cluster, c.Member, c.Version, c.Position, c.Tokens} }

// Position is a position in the log of a cluster.
type Position = etcdmember.Position

// Volume is the state of a volume, as the agent found it.
type Volume = etcdmember.Volume

// The states of a volume.
const (
	VolumeEmpty   = etcdmember.VolumeEmpty
	VolumeData    = etcdmember.VolumeData
	VolumeForeign = etcdmember.VolumeForeign
)

// Report is the answer of the agent in a pod before it starts etcd (etcdmember.Report).
type Report struct {
	Volume  Volume
	Cluster ID // of the mark; 0 if the id did not exist yet when the mark was written
	Member  ID // of the mark
	// Used is the last ticket that was used in this pod, even if the volume was lost afterwards.
	Used string
	// Token is that of the last recovery of this volume.
	Token string
	// Damage is the evidence that the data is damaged, and Outdated the evidence that the data is older than the member's last data. Empty
	// for none.
	Damage, Outdated string
	// Position is the end of the data's log.
	Position
	// Owner is the pod that foreign data belongs to, as NAMESPACE/NAME. Empty while unknown.
	Owner string
	// Waiting names the condition that the agent waits for.
	Waiting string
}

// reason returns why the agent does not start etcd on the data of its volume, in one word and a colon, or "".
func (r *Report) reason() string {
	switch {
	case r.Damage != "":
		return "DataDamaged: "
	case r.Outdated != "":
		return "DataOutdated: "
	}
	return ""
}

// isExplained reports whether Kubernetes, the container or the agent reports why etcd does not answer. An agent reports data on which it
// does not start etcd. The problem of a pod that is being deleted explains nothing: etcd closes connections when it shuts down.
func (p *Pod) isExplained() bool {
	if p == nil {
		return false
	}
	r := p.Report
	return p.Problem != "" && !p.Terminating && !p.Silent && p.Problem != NotListening || r != nil && (r.Damage != "" || r.Outdated != "" || r.Volume == VolumeForeign)
}

// Answer is the answer of etcd in a pod.
type Answer struct {
	Cluster ID
	Member  ID
	Leader  ID // 0 if unknown to the member
	Learner bool
	Version string // of the server, such as 3.6.16

	// Linear reports whether the member answered a linearizable read. Then a quorum agrees with it, and Members is the current list. It is
	// never true for a learner.
	Linear  bool
	Members []Member // in its view; empty for a learner
	// Trust is nil if the operator creates no certificates, or the member does not show them.
	Trust  *Trust
	Alarms []Alarm

	Term, Index, Applied uint64
	Revision             int64
	Size, Used           int64 // bytes of the database file, and of its used part
	Quota                int64 // bytes; 0 if unknown
	// Compacted reports whether the history before Revision was dropped. It is queried while an alarm is raised.
	Compacted bool
	// Hash is the hash of its keys. It is queried while the alarm CORRUPT is raised.
	Hash *Hash
}

// Position returns the last entry that the member has applied.
func (a *Answer) Position() Position { return Position{Term: a.Term, Index: a.Applied} }

// Member is an entry of the member list.
type Member struct {
	ID       ID
	Name     string // empty until the member was started
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

// The tickets: values of an annotation on a pod.
const (
	TicketSeed  = etcdmember.TicketSeed        // form a new cluster
	TicketNone  = etcdmember.TicketNone        // takes a ticket back
	ticketJoin  = etcdmember.TicketJoin + ":"  // followed by the id of an added member that was never started
	ticketForce = etcdmember.TicketForce + ":" // followed by the token of a recovery
)

// JoinTicket returns the ticket of an added member.
func JoinTicket(id ID) string { return ticketJoin + id.String() }

// ForceTicket returns the ticket of the survivor of a recovery.
func ForceTicket(token string) string { return ticketForce + token }

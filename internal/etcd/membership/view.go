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

// ID is the ID of a member or a cluster, as etcd generates it. Its text is hexadecimal, as in etcdctl.
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
	Replicas int // number of voters, 0 to MaxReplicas; 0 parks the cluster
	// Version is the version of etcd, such as 3.6.16. An upgrade passes through each minor version.
	Version string
	// Path holds the last patches of intermediate minors, such as 3.5.35, in any order.
	Path []string
	// Pinned reports whether the image in the spec cannot be changed to another version than Version.
	Pinned bool
	// PeerURLs are the members' peer URLs, by ordinal, for all ordinals below MaxReplicas.
	PeerURLs []string
	// WellFor is the time for which a pod must be ready without a restart before the next pod is replaced.
	WellFor time.Duration
	// ReplaceAfter is the time for which a member may crash before it is replaced and its volume deleted. 0: never.
	ReplaceAfter time.Duration
	Recovery     Recovery
	Maintenance  Maintenance
}

// Recovery is the consent to continue with the data of one member after the quorum was lost.
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
	// DefragPercent is the percentage of unused space above which a database file is rewritten. 0: never.
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
	// Authorities are the certificate authorities. Nil: the operator creates none, or the Secrets do not contain them yet.
	Authorities *Authorities
	// Lagging reports whether Kubernetes has not processed the latest StatefulSet yet. Until it has, the outdated pods are unknown.
	Lagging bool
	// Failures are steps that have failed recently and are not due yet.
	Failures []Failure
}

// Failure is a failed step.
type Failure struct {
	Step  string // Key of the step
	Cause string
}

// Record holds decisions that the plan follows. It is stored as an annotation on a planned object, which lives as long as the resource.
// Claims outlive the resource.
type Record struct {
	// Cluster is the ID of the cluster, since its first observation. 0: no cluster was formed yet.
	Cluster ID `json:"cluster,omitempty"`
	// Replicas is the number of replicas of the StatefulSet while the cluster is not parked.
	Replicas int `json:"replicas,omitempty"`
	// Version is the version of etcd in the pod template.
	Version string `json:"version,omitempty"`
	// Scheme is the scheme of the members' peer URLs, http or https.
	Scheme string `json:"scheme,omitempty"`
	// Tokens are the tokens of all started recoveries, separated by spaces, the latest last.
	Tokens string `json:"tokens,omitempty"`
	// Survivor is the pod with whose data a recovery continues, until the recovery is complete.
	Survivor string `json:"survivor,omitempty"`
	// Authority identifies the certificate authorities whose certificates all members have accepted. It is empty while they are unknown,
	// and after the last pod was deleted.
	Authority Fingerprint `json:"authority,omitzero"`
}

// Fingerprint holds the SHA-256 sums of the certificates of two authorities, in hexadecimal.
type Fingerprint struct {
	Clients string `json:"clients,omitempty"`
	Members string `json:"members,omitempty"`
}

// versions extends the range from lowest to newest by another version, which may be empty.
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

// Planned returns the number of replicas of the StatefulSet and the version of etcd. Decide changes both only in
// recorded steps. A lost, old or edited record removes no pod: replicas is never below live, the replicas of the
// live StatefulSet. Without a StatefulSet, replicas covers all claims with data of the recorded cluster. Only
// ActionScale removes pods. The minor version is never below the minor version of the data.
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
		return live, version // a pod whose claim was deleted loses its data when the pod is deleted
	case want.Replicas == 0:
		return 0, version
	case live > 0:
		return max(record.Replicas, live), version
	default:
		return max(1, record.Replicas, marked), version
	}
}

// isStray reports whether a claim has data of another cluster than the recorded one, and no planned pod uses the claim. live is the number
// of replicas of the StatefulSet.
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

	Running     bool // its etcd container runs, with the agent or with etcd
	Ready       bool
	Terminating bool
	Outdated    bool // its revision is not the latest of the StatefulSet
	Revision    string

	// WellFor is the time for which the pod has been ready without a restart. Ended describes the last termination of a container; empty if
	// there is none.
	WellFor time.Duration
	Ended   string

	// Crashing reports whether etcd has kept exiting since the pod became unready. NotReadyFor is the time since then.
	Crashing    bool
	NotReadyFor time.Duration
	// Silent reports whether etcd does not answer in time, and no other reason is known.
	Silent bool
	// Locked reports whether etcd requires an etcd user, or etcd and the operator refuse each other's certificates.
	Locked bool
	// Problem is a short reason why the pod does not start or answer; empty if it answers.
	Problem string

	Ticket string // the annotation on the pod

	Report *Report // report of the agent; nil if the agent does not answer, for example while etcd runs
	// Watched is the agent's report while etcd runs without answering. (etcd answers no client until it has found a quorum.)
	Watched *Report
	Answer  *Answer // of etcd; nil if it does not answer
	// Kept is the size in MiB of former data, which stays on the volume until a user removes it; 0 if unknown.
	Kept int64
}

// Claim is the volume claim of an ordinal.
type Claim struct {
	Name        string
	Ordinal     int
	UID         string
	Terminating bool
	Cluster     ID // cluster of the data; 0 if unknown
	Member      ID // member that owns the data
	Version     string
	// Position is the end of the data when the member was last observed running. MarkedFor is the time since Position was written.
	Position  Position
	MarkedFor time.Duration
	// Tokens are the tokens of the cluster's recoveries, separated by spaces.
	Tokens string
	// Malformed describes an annotation that is not in the operator's format; empty for none. If an annotation is malformed, Cluster and
	// Member are 0, and the data may belong to any member.
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
	Cluster ID // in the agent's mark on the volume; 0 if the ID was unknown when the mark was written
	Member  ID // in that mark
	// Used is the last ticket that this pod has used. It is known even if the volume was lost later.
	Used string
	// Token is the token of the last recovery of this volume.
	Token string
	// Damage is the evidence that the data is damaged. Outdated is the evidence that the data is older than the member's last data. Both
	// are empty for none.
	Damage, Outdated string
	// Position is the end of the data's log.
	Position
	// Owner is the pod to which foreign data belongs, as NAMESPACE/NAME; empty if unknown.
	Owner string
	// Waiting names the condition for which the agent waits.
	Waiting string
	// Kept is the size in MiB of former data, which stays on the volume until a user removes it.
	Kept int64
}

// reason returns the reason why the agent does not start etcd on its volume, as one word and a colon, or "".
func (r *Report) reason() string {
	switch {
	case r.Damage != "":
		return "DataDamaged: "
	case r.Outdated != "":
		return "DataOutdated: "
	}
	return ""
}

// isExplained reports whether Kubernetes, a container or the agent reports a reason why etcd does not answer. The agent
// reports a reason if it does not start etcd on the data. isExplained returns false for a pod that is being deleted,
// because etcd closes connections when it shuts down.
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

	// Linear reports whether the member has answered a linearizable read. In that case, a quorum agrees with the member, and Members is the
	// current list. It is never true for a learner.
	Linear  bool
	Members []Member // member list of this member; empty for a learner
	// Trust is nil if the operator creates no certificates, or if the member does not show its certificates.
	Trust  *Trust
	Alarms []Alarm

	Term, Index, Applied uint64
	Revision             int64
	Size, Used           int64 // bytes of the database file, and of its used part
	Quota                int64 // bytes; 0 if unknown
	// Compacted reports whether the history before Revision was dropped. It is queried only while an alarm is raised.
	Compacted bool
	// Hash is the hash of the member's keys. It is queried only while the alarm CORRUPT is raised.
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
	TicketNone  = etcdmember.TicketNone        // revoke a ticket
	ticketJoin  = etcdmember.TicketJoin + ":"  // followed by the ID of an added member that was never started
	ticketForce = etcdmember.TicketForce + ":" // followed by the token of a recovery
)

// JoinTicket returns the ticket of an added member.
func JoinTicket(id ID) string { return ticketJoin + id.String() }

// ForceTicket returns the ticket of the survivor of a recovery.
func ForceTicket(token string) string { return ticketForce + token }

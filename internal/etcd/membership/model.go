// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

// Verdict classifies a view.
type Verdict string

// The verdicts. Steps that change the membership need Complete or Degraded.
const (
	Parked     Verdict = "Parked"     // no pod is wanted; the data is kept
	Fresh      Verdict = "Fresh"      // no trace of a cluster exists
	Complete   Verdict = "Complete"   // all members answer, and a quorum is proven
	Degraded   Verdict = "Degraded"   // a quorum is proven, but not all members are healthy
	QuorumLost Verdict = "QuorumLost" // no quorum is proven
	SplitBrain Verdict = "SplitBrain" // two clusters exist
)

// The phases of a cluster.
const (
	PhasePending    = "Pending"    // nothing runs yet
	PhaseCreating   = "Creating"   // the first members are being started
	PhaseRunning    = "Running"    // all wanted voters are healthy, at the wanted version
	PhaseScaling    = "Scaling"    // voters are added or removed because replicas changed
	PhaseUpgrading  = "Upgrading"  // pods are replaced with another revision
	PhaseRecovering = "Recovering" // a member is replaced, or the cluster continues from one survivor
	PhaseDegraded   = "Degraded"   // a quorum answers, but a member is not healthy
	PhaseQuorumLost = "QuorumLost" // no quorum answers
	PhaseFailed     = "Failed"     // two clusters exist, or a volume has data that belongs to no member: a user must act
	PhaseParked     = "Parked"     // replicas is 0
)

// The states of a member.
const (
	StateVoter    = "Voter"    // it votes, and answers
	StateLearner  = "Learner"  // it receives the data
	StateStarting = "Starting" // it was added but not started yet, or its pod is starting
	StateDown     = "Down"     // it is a voter but does not answer
	StateLost     = "Lost"     // its agent reports that its data is lost
	StateUnknown  = "Unknown"  // it is a member but runs in no pod of the cluster
)

// Model describes the whole cluster for users.
type Model struct {
	Verdict Verdict
	Phase   string
	// Ongoing reports whether the step occurs in several kinds of changes. The phase of the started change then stays.
	Ongoing bool
	// Restarts reports whether the only member that does not serve restarts with a new pod. The phase of the started change then stays.
	Restarts bool
	// Starts reports whether no member serves because all pods are new, and no problem of them is known. A parked cluster starts in this
	// way.
	Starts bool
	// Reason explains the verdict, and the user's options if the operator has none. It is empty when all members are healthy.
	Reason string
	// Notes list further facts for the user.
	Notes []string

	Cluster ID // 0 while unknown
	Leader  string
	// Version is the lowest version of all members. Target is the version that the pods are updated to.
	Version, Target string
	// Voters is the number of voters in the member list, Healthy the number of them that answer, and Quorum the number that must.
	Voters, Healthy, Quorum int
	Members                 []MemberState
	// DataLost reports whether so many members lost their data that the others cannot form a quorum: a user must act.
	DataLost bool
	// Corrupt reports whether the alarm CORRUPT is raised. No member serves reads or writes then.
	Corrupt bool
	// NoSpace reports whether the alarm NOSPACE is raised. Writes fail then.
	NoSpace bool
	// Locked reports whether members answer but refuse the operator. Whether they form a quorum is unknown then.
	Locked bool
	// Settled reports whether no step is left.
	Settled bool
}

// MemberState describes one member for users.
type MemberState struct {
	Name    string // of its pod, or the member's name in etcd without a pod of this cluster
	ID      ID
	Ordinal int // -1 for a member without a pod of this cluster
	State   string
	Version string
	Size    int64 // bytes of its database file
	Message string
}

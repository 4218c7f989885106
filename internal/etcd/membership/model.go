// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

// Verdict classifies a view.
type Verdict string

// The verdicts. Steps add, promote and remove members only if the verdict is Complete or Degraded.
const (
	Parked     Verdict = "Parked"     // no pod is wanted; the data is retained
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
	PhaseRecovering = "Recovering" // a member is being replaced, or the cluster continues from one survivor
	PhaseDegraded   = "Degraded"   // a quorum answers, but a member is not healthy
	PhaseQuorumLost = "QuorumLost" // no quorum answers
	PhaseFailed     = "Failed"     // two clusters exist, or a volume has data that belongs to no member: a user must act
	PhaseParked     = "Parked"     // replicas is 0
)

// The states of a member.
const (
	StateVoter    = "Voter"    // votes, and answers
	StateLearner  = "Learner"  // receives data, but does not vote
	StateStarting = "Starting" // was added but never started, or the pod is starting
	StateDown     = "Down"     // is a voter, but does not answer
	StateLost     = "Lost"     // the agent reports that the data is lost
	StateUnknown  = "Unknown"  // is in the member list, but no pod of the cluster runs the member
)

// Model describes the whole cluster for users.
type Model struct {
	Verdict Verdict
	Phase   string
	// Ongoing reports whether the step occurs in several kinds of changes. If so, the phase of the started change
	// stays.
	Ongoing bool
	// Restarts reports whether exactly one member does not serve, because its pod is new. If so, the phase of the
	// started change stays.
	Restarts bool
	// Starts reports whether no member serves because all pods are new, and none of them has a known problem. This is the case when a
	// parked cluster starts.
	Starts bool
	// Reason explains the verdict. If the operator can do nothing, it also names the user's options. Reason is empty when the members
	// are healthy and ready, no change waits, and no claim is being deleted.
	Reason string
	// Notes list further facts for the user.
	Notes []string

	Cluster ID // 0 while unknown
	Leader  string
	// Version is the lowest version of all members. Target is the version to which the pods are updated.
	Version, Target string
	// Voters is the number of voters in the member list. Healthy is the number of healthy voters whose pods are ready. Quorum is the number
	// of voters that must answer.
	Voters, Healthy, Quorum int
	Members                 []MemberState
	// DataLost reports whether so many members have lost their data that the others cannot form a quorum. A user must act.
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
	Name    string // name of its pod; without a pod of this cluster, its name in etcd
	ID      ID
	Ordinal int // -1 for a member without a pod of this cluster
	State   string
	Version string
	Size    int64 // bytes of its database file
	Message string
}

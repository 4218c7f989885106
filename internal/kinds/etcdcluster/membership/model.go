// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

// Verdict is what was seen, in a word.
type Verdict string

// The verdicts. Steps that change the membership need Complete or Degraded.
const (
	Parked     Verdict = "Parked"     // no pod is wanted; the data is kept
	Fresh      Verdict = "Fresh"      // nothing shows that there ever was a cluster
	Complete   Verdict = "Complete"   // all members answer, and a quorum is proven
	Degraded   Verdict = "Degraded"   // a quorum is proven, and not all members are well
	QuorumLost Verdict = "QuorumLost" // no quorum is proven
	SplitBrain Verdict = "SplitBrain" // there are two clusters
)

// The phases of a cluster.
const (
	PhasePending    = "Pending"    // nothing runs yet
	PhaseCreating   = "Creating"   // the first members are being started
	PhaseRunning    = "Running"    // all wanted voters are well, at the wanted version
	PhaseScaling    = "Scaling"    // voters are added or removed because another number is wanted
	PhaseUpgrading  = "Upgrading"  // pods are replaced by those of another revision
	PhaseRecovering = "Recovering" // a member is replaced, or the cluster goes on from one survivor
	PhaseDegraded   = "Degraded"   // a quorum answers, and a member is not well
	PhaseQuorumLost = "QuorumLost" // no quorum answers
	PhaseFailed     = "Failed"     // there are two clusters, or data that is no member's: a person has to act
	PhaseParked     = "Parked"     // replicas is 0
)

// The states of a member.
const (
	StateVoter    = "Voter"    // it votes, and answers
	StateLearner  = "Learner"  // it is getting the data
	StateStarting = "Starting" // it was added and has not been started, or its pod is coming up
	StateDown     = "Down"     // it is a voter and does not answer
	StateLost     = "Lost"     // its data is gone, by the agent's word
	StateUnknown  = "Unknown"  // it is a member that none of the pods is
)

// Model is the cluster as a whole, for people.
type Model struct {
	Verdict Verdict
	Phase   string
	// Ongoing reports whether the step is one of several changes, so that the phase of the change that was begun stays.
	Ongoing bool
	// Reason says what the verdict rests on and what a person can do if the operator does nothing. Empty when all is well.
	Reason string
	// Notes are what else a person should know.
	Notes []string

	Cluster ID // 0 while unknown
	Leader  string
	// Version is the lowest that any member runs; Target is the one that the pods are being brought to.
	Version, Target string
	// Voters are counted in the list of members, Healthy those of them that answer. Quorum is how many must.
	Voters, Healthy, Quorum int
	Members                 []MemberState
	// DataLost reports whether so many members have lost their data that the others cannot be a quorum: a person has to act.
	DataLost bool
	// Corrupt reports whether there is the alarm CORRUPT, in which no member takes reads and writes.
	Corrupt bool
	// Locked reports whether members answer, and refuse the operator: whether a quorum does is not known.
	Locked bool
	// Settled reports whether nothing is left to be done.
	Settled bool
}

// MemberState is one member, for people.
type MemberState struct {
	Name    string // of its pod; of none of ours, its own
	ID      ID
	Ordinal int // -1 for a member that none of the pods is
	State   string
	Version string
	Size    int64 // bytes of its database file
	Message string
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"time"
)

// Action is what a step does.
type Action string

// The actions of steps. Each has one effect; what it did is seen in the next observation.
const (
	ActionWait       Action = "Wait"       // for the running system; Message says for what
	ActionRecord     Action = "Record"     // write Record into the object that keeps it
	ActionSetEpoch   Action = "SetEpoch"   // CLUSTER SET-CONFIG-EPOCH Epoch on Node
	ActionBumpEpoch  Action = "BumpEpoch"  // CLUSTER BUMPEPOCH on Node, so that lagging views believe what it owns
	ActionMeet       Action = "Meet"       // CLUSTER MEET on Node with the address of Target
	ActionAddSlots   Action = "AddSlots"   // CLUSTER ADDSLOTSRANGE Slots on Node
	ActionReplicate  Action = "Replicate"  // CLUSTER REPLICATE on Node of Target
	ActionForget     Action = "Forget"     // CLUSTER FORGET of ID, which owns nothing, on every node of On, in one pass
	ActionReset      Action = "Reset"      // CLUSTER RESET HARD on Node, which owns nothing; with keys only while those of On own all slots
	ActionFailover   Action = "Failover"   // CLUSTER FAILOVER on Node, a replica; Mode is "", FORCE or TAKEOVER
	ActionMoveSlots  Action = "MoveSlots"  // Slots from Node to Target, for as long as a pass may take; On are the other masters, told last
	ActionMarkSlot   Action = "MarkSlot"   // CLUSTER SETSLOT on Node: Mode is IMPORTING, MIGRATING or STABLE, ID the other node
	ActionAssignSlot Action = "AssignSlot" // CLUSTER SETSLOT NODE ID on the nodes of On, in that order
	ActionDropSlots  Action = "DropSlots"  // CLUSTER DELSLOTS Slots on Node, which was given up and is back: the members On own them
	ActionFlush      Action = "Flush"      // FLUSHALL on Node, a stale copy: it owns nothing, and those of On own all slots
	ActionFunctions  Action = "Functions"  // FUNCTION DUMP of Node restored on Target
	ActionConfigure  Action = "Configure"  // CONFIG SET Settings on Node
	ActionDeletePod  Action = "DeletePod"  // so that its StatefulSet makes it again
)

// ModeConsent is the Mode of a Flush or Reset of a node whose data a person gave up by its id: it may own
// slots by its own word, and hold keys.
const ModeConsent = "CONSENT"

// ModeBack is the Mode of a MoveSlots that undoes what was begun: Slots, which Node owns, are open between it and Target,
// and their keys go back to Node.
const ModeBack = "BACK"

// LargestValue is the size of the largest value that a move takes, in bytes, where the step does not say less. Redis
// refuses more than 512 MiB.
const LargestValue = 400 << 20

// ModeForming is the Mode of a Forget of a node that lost its data before the cluster had a key: it may own slots.
const ModeForming = "FORMING"

// ModeStale is the Mode of a Reset of a replica that the cluster has forgotten and whose keys are copies
// of what a member owns: it may hold keys, and loses them.
const ModeStale = "STALE"

// Place is a node that a step acts on. The step is refused when the pod's UID, its address or the node
// id at that address is no longer this one.
type Place struct{ Pod, UID, IP, ID string }

// Step is one effect, as data. Package server takes it.
type Step struct {
	Action Action
	// Message tells people what is done to what, such as: move slots 0-99 from a-0-0 to a-3-0.
	Message string

	Node, Target Place
	On           []Place
	ID           string
	Slots        SlotSet
	Largest      int64 // bytes of the largest value that is moved; 0 is LargestValue
	Epoch        uint64
	Mode         string
	Settings     map[string]string
	// Proof is what a Failover without the master's agreement proves of the replica, right before its command. Of other actions it
	// is the start of the Target since which the data of the Node is known to be of no use.
	Proof  Proof
	Record *Record

	// Batch are commands of the same action that are sent in one pass; the fields above, but for Action
	// and Message, are empty then. None depends on another, so their order is free, one that fails does
	// not keep back the others, and a crash between two of them leaves what the next observation shows:
	// some nodes met, some slots added. The decision about the rest is then the same.
	Batch []Step
	// Interval is how long the same Action is not sent to the same Node again: a failover is accepted
	// at once and takes a while, and one that is begun again each second may never end. Whoever takes
	// steps may forget it, in a restart, at the cost of one command too many.
	Interval time.Duration
}

// Proof is what was observed of a replica when it was chosen.
type Proof struct {
	// History is the replica's replication id: that of the lost master, or that of its own start if it copied from nobody since.
	History string
	// Offset is what it had read of that history.
	Offset int64
	// Run is the run id of the Target, a master that has restarted without its data. Empty: the master is lost.
	Run string
	// Consented reports whether a person gave up the data of the Target, which may have keys.
	Consented bool
	// NeverUp reports whether a pod is deleted because its Redis has served nothing in it.
	NeverUp bool
	// Within are the slots that the replica's keys have to be of, where no record says whose its history is.
	Within SlotSet
}

// sameStart returns a proof that a master has not restarted since it was observed.
func sameStart(master *Node) Proof { return Proof{Run: master.RunID} }

// Subject returns what tells a step from others of its action on a node: its target, the node that it names, or the settings.
func (s Step) Subject() string {
	if len(s.Settings) > 0 {
		return fmt.Sprint(s.Settings)
	}
	return cmp.Or(s.Target.ID, s.ID)
}

// Decision is what Decide says.
type Decision struct {
	Model Model
	// Steps in their order. The first is taken, then everything is observed anew.
	Steps []Step
	// LookAgain is when to observe again if nothing happens at the API server.
	LookAgain time.Duration
}

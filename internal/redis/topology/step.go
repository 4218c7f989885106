// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"time"
)

// Action names the effect of a step.
type Action string

// The actions of steps. Each has one effect, which the next observation shows.
const (
	ActionWait       Action = "Wait"       // no effect; Message names what is awaited
	ActionRecord     Action = "Record"     // write Record into the object that stores it
	ActionSetEpoch   Action = "SetEpoch"   // CLUSTER SET-CONFIG-EPOCH Epoch on Node
	ActionBumpEpoch  Action = "BumpEpoch"  // CLUSTER BUMPEPOCH on Node, so that outdated views accept its slots
	ActionMeet       Action = "Meet"       // CLUSTER MEET on Node with the address of Target
	ActionAddSlots   Action = "AddSlots"   // CLUSTER ADDSLOTSRANGE Slots on Node
	ActionReplicate  Action = "Replicate"  // CLUSTER REPLICATE on Node of Target
	ActionAdmit      Action = "Admit"      // let replicas copy from Node, whose volume was reset: the user has accepted the loss
	ActionForget     Action = "Forget"     // CLUSTER FORGET of ID, which owns nothing, on every node of On, in one pass
	ActionReset      Action = "Reset"      // CLUSTER RESET HARD on Node, which owns nothing; if Node has keys, the nodes On own all slots
	ActionFailover   Action = "Failover"   // CLUSTER FAILOVER on Node, a replica; Mode is "", FORCE or TAKEOVER
	ActionMoveSlots  Action = "MoveSlots"  // Slots from Node to Target, within the time of a pass; On are the other masters, updated last
	ActionMarkSlot   Action = "MarkSlot"   // CLUSTER SETSLOT on Node: Mode is IMPORTING, MIGRATING or STABLE, ID the other node
	ActionAssignSlot Action = "AssignSlot" // CLUSTER SETSLOT NODE ID on the nodes of On, in that order
	ActionDropSlots  Action = "DropSlots"  // CLUSTER DELSLOTS Slots on Node, which has returned after a user gave up its data; the members On own the slots
	ActionFlush      Action = "Flush"      // FLUSHALL on Node, a stale copy: it owns nothing, and the members On own all slots
	ActionFunctions  Action = "Functions"  // FUNCTION DUMP of Node restored on Target
	ActionConfigure  Action = "Configure"  // CONFIG SET Settings on Node
	ActionDeletePod  Action = "DeletePod"  // delete the pod of Node; its StatefulSet creates the pod again
)

// ModeConsent is the Mode of a Flush or Reset of a node whose data a user gave up by its id. The node may claim slots and hold keys.
const ModeConsent = "CONSENT"

// ModeBack is the Mode of a MoveSlots that undoes a started move. Node owns Slots, which are open between it and Target; their keys go back
// to Node.
const ModeBack = "BACK"

// ModeAlone is the Mode of a DeletePod of the only pod of a shard. The node owns slots, has no replica, and restarts with its data.
const ModeAlone = "ALONE"

// LargestValue is the maximum size in bytes of a value that a move transfers, unless the step sets a lower one. Redis
// refuses values of more than 512 MiB.
const LargestValue = 400 << 20

// ModeForming is the Mode of a Forget of a node that lost its data before the cluster had a key. The node may own slots.
const ModeForming = "FORMING"

// ModeStale is the Mode of a Reset of a forgotten replica whose keys are copies of a member's keys. The replica may hold keys, and loses
// them.
const ModeStale = "STALE"

// Place identifies a node that a step acts on. The step is refused if the pod's UID, its address or the node id at that address has
// changed.
type Place struct{ Pod, UID, IP, ID string }

// Step is one effect, as data. Package server runs it.
type Step struct {
	Action Action
	// Message describes the effect to users, such as: move slots 0-99 from a-0-0 to a-3-0.
	Message string

	Node, Target Place
	On           []Place
	ID           string
	Slots        SlotSet
	Largest      int64 // bytes of the largest value that is moved; 0 is LargestValue
	Epoch        uint64
	Mode         string
	Settings     map[string]string
	// Proof holds the conditions that are checked right before the command. A Failover without the master's agreement
	// checks the replica. Other actions check that the Target still has the run id Run. Only in that run is the Target
	// known to have all data of Node.
	Proof  Proof
	Record *Record

	// Batch holds commands of the same action that are sent in one pass. In a step with a Batch, all other fields except
	// Action and Message are empty. The commands are independent: they have no order, and a failure of one does not stop the others.
	// After a crash, the next observation shows which commands took effect, and Decide returns the others again.
	Batch []Step
	// Interval is the minimum time between two sends of the same Action to the same Node. A failover takes some time
	// after Redis has accepted it: if it were started again each second, it might never end. After a restart, the
	// operator does not know the time of the last send, and may send one more command.
	Interval time.Duration
}

// Proof contains the observations on which Decide based a step.
type Proof struct {
	// History is the replica's replication id. It shows the source of the data: the lost master, or the start of the
	// replica if it has not copied since.
	History string
	// Offset is the replica's offset in that history.
	Offset int64
	// Run is the run id of the Target, which is a master. In a Failover without the master's agreement, this master
	// restarted without its data, or a user gave up its data; an empty Run means that the master is lost.
	Run string
	// Consented reports whether a user gave up the data of the Target, which may have keys.
	Consented bool
	// NeverUp reports whether a pod is deleted because its Redis never served in it.
	NeverUp bool
	// Stuck reports whether a pod is deleted because its Redis does not run and cannot start.
	Stuck bool
	// Within limits the keys of a replica whose history matches no record: all keys of the replica must be in these
	// slots, which its master owns.
	Within SlotSet
}

// sameStart returns the proof that a master has not restarted since it was observed.
func sameStart(master *Node) Proof { return Proof{Run: master.RunID} }

// Subject distinguishes steps of one action on one node. It returns the target, the node that is named, or the
// settings.
func (s Step) Subject() string {
	if len(s.Settings) > 0 {
		return fmt.Sprint(s.Settings)
	}
	return cmp.Or(s.Target.ID, s.ID)
}

// Decision is the result of Decide.
type Decision struct {
	Model Model
	// Steps are in order. The caller takes the first step, and then observes everything again.
	Steps []Step
	// LookAgain is the time until the next observation if no API event triggers one.
	LookAgain time.Duration
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"time"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// Node is one pod of the cluster, as observed from Kubernetes and from its Redis in this pass.
type Node struct {
	Pod  string // name of the pod; identifies a place in the cluster across restarts
	UID  string // UID of the pod; a step is refused for a pod with another UID
	Host string // the Kubernetes node of the pod; empty until the pod is scheduled
	Zone string // the topology zone of Host; empty if unknown

	Shard   int // the ordinal of the StatefulSet
	Ordinal int // the ordinal within the StatefulSet

	IP          string // empty until assigned
	Running     bool   // its Redis container runs
	Ready       bool   // the pod is ready
	Terminating bool   // the pod is being deleted
	Outdated    bool   // the pod has another revision than its StatefulSet

	// WellFor is the time for which the pod has been ready without a restart. Ended describes how a container of the
	// pod last ended. It is empty if none has ended.
	WellFor time.Duration
	Ended   string

	// ClaimLeaves reports whether the claim with the pod's data is being deleted. The data is then deleted with the pod.
	ClaimLeaves bool

	// NeverUp reports whether the Redis container of this pod has never served: it never ran, or it exited each time
	// before the pod became ready. Deleting this pod ends no server, and the volume stays.
	NeverUp bool

	// Stuck reports whether the Redis container does not run, and Kubernetes has failed to run it: it keeps exiting, or cannot start.
	// Deleting this pod ends no server, and the volume stays.
	Stuck bool

	// LostData reports whether the container refuses to start because its data is lost, while other nodes still know
	// its node id. The server must not start as a new, empty node in the same pod: replicas would find it at their
	// master's address and copy from it. A new pod has another address.
	LostData bool

	// NotStarted is the container's reason for not starting on its volume: a damaged file, or the volume of another node.
	NotStarted string

	// Locked reports whether Redis refuses the password in the Secret, because the Secret had another one when this pod started.
	// Other nodes accept the password, and a new pod would start with it.
	Locked bool

	// Failures are steps on this node that failed and are not due for a retry yet.
	Failures []Failure
	// Sent holds, for each action with an interval, the time since its last step was sent to this node.
	Sent map[Action]time.Duration

	// Reached reports whether Redis answered all queries. If false, the fields below are unknown, and Problem names the cause:
	// connection refused, no answer within 2s, wrong password, loading its data.
	Reached bool
	Problem string
	// Loading reports whether Redis answered that it is still reading its data. In that case, Reached is false.
	Loading bool

	ID          string // CLUSTER MYID
	RunID       string // run_id of INFO: changes with each start of the server
	Uptime      time.Duration
	View        []Entry // CLUSTER NODES: the cluster as this node sees it, itself included
	StateOK     bool    // cluster_state:ok of CLUSTER INFO
	Replication Replication
	Keys        int64 // DBSIZE
	UsedMemory  int64 // bytes
	MaxMemory   int64 // bytes; 0 is no limit
	Evicts      bool  // at maxmemory, the node evicts keys instead of refusing writes
	// Refuses describes requests of clients that the running node refuses, and why: a full disk or memory, too few replicas, too many
	// connections. Empty if it refuses none.
	Refuses string
	// Closed reports whether this master accepts no replica: the user with which replicas copy is disabled. It is
	// disabled on a new node, on a node that restarted without slots before it had learned of its replicas, and on a
	// node whose volume may have been reset by storage.
	Closed bool
	// Used is the last mark of the volume of a closed master: the mark before its server started, or a later mark that the server has made since. A
	// mark is a time of the node's clock, and only grows. Used is zero if another node proved at the start that storage has not reset the volume.
	Used time.Time
	// Seen holds the marks of other volumes that this node has noted, by node id. It is read only while a master has a
	// mark in Used.
	Seen map[string]time.Time
	// Kept is the size in MiB, at the start of the server, of former files that are kept on the volume for users.
	Kept int64
	// Unsaved reports whether the node cannot write its append-only file: acknowledged writes would be lost when the node stops.
	Unsaved bool
	Saving  bool   // a BGSAVE or a rewrite of the append-only file is running
	Version string // redis_version, such as 7.0.15
	// Settings are the node's values of the wanted settings.
	Settings map[string]string
	// SlotKeys counts the node's keys in each slot that is open on any node (COUNTKEYSINSLOT). Every reached master is queried for every
	// such slot. A missing count prevents decisions about its slot.
	SlotKeys map[int]int64
	// Functions is the digest of FUNCTION DUMP of a master. It is empty if the node has no functions.
	Functions string
	// At is the time of the read on the node's clock. The times in View are on the same clock.
	At time.Time
}

// Failure is a step that failed a short time ago. Decide skips it, so that other steps are taken.
type Failure struct {
	Action Action
	Mode   string
	Target string  // the Subject of the step
	Into   bool    // the node accepted no keys: no move to it is due yet, from any source
	Slots  SlotSet // the failed slots; empty: the whole step
	Cause  string
}

// Compare orders failures.
func (f Failure) Compare(other Failure) int {
	first := func(s SlotSet) int {
		if len(s) == 0 {
			return -1
		}
		return s[0].From
	}
	return cmp.Or(cmp.Compare(f.Action, other.Action), cmp.Compare(f.Mode, other.Mode), cmp.Compare(f.Target, other.Target),
		cmp.Compare(first(f.Slots), first(other.Slots)))
}

// Replication is the parsed INFO replication.
type Replication struct {
	Master     bool
	MasterHost string // address of a replica's master
	MasterPort int
	LinkUp     bool  // master_link_status:up
	Syncing    bool  // a full synchronisation is running
	Offset     int64 // master_repl_offset, or slave_repl_offset of a replica
	Replicas   int   // number of connected replicas

	// ID identifies the history of the node's data: master_replid. A start of the server and a promotion create a new ID. A replica has the
	// ID of its master. FormerID (master_replid2) is the ID of the previous master, whose history the node continues.
	ID, FormerID string
	// LinkDown is the time since a replica lost the link to its master. It is NeverLinked if there was no link since its server started.
	LinkDown time.Duration
}

// NeverLinked is the LinkDown of a replica that has not copied since its server started.
const NeverLinked = time.Duration(-1)

// History identifies the data of a shard that its master and a replica shared. It is recorded while a replica is in sync.
type History struct {
	Node string `json:"node"` // id of the master
	Run  string `json:"run"`  // run id of the master
	Repl string `json:"repl"` // replication id of the master
}

// Entry is one line of CLUSTER NODES: one node's view of another, or of itself.
type Entry struct {
	ID       string
	IP       string // empty if the address is not known
	Port     int
	BusPort  int
	Hostname string

	Myself, Master, Replica                  bool
	Fail, PossiblyFail, Handshake, NoAddress bool
	MasterID                                 string // id of a replica's master; empty for a master
	PingSent, PongReceived                   time.Time
	Epoch                                    uint64
	Connected                                bool // link-state
	Owned                                    SlotSet
	Migrating                                map[int]string // slot -> id of the target; only on the node's own line
	Importing                                map[int]string // slot -> id of the source; only on the node's own line
}

// Record holds state that cannot be observed. It is stored in an object that outlives the RedisCluster, like the data. Each change is stored
// before the first step that depends on the change.
type Record struct {
	// Formed reports whether slots were ever assigned. If it is true, pods that are all empty have lost their data. If
	// it is false, they are a new cluster.
	Formed bool `json:"formed,omitempty"`
	// Shards holds each shard's number of pods, by ordinal. It counts the pods that joined the cluster and were not removed from the
	// cluster. The plan keeps these pods until they are drained.
	Shards []int `json:"shards,omitempty"`
	// Nodes are the ids of the nodes that were members, by pod. A pod with another id has lost its data.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Histories holds the shards' histories by ordinal. A replica replaces a lost master only if the replica has the history of its shard.
	Histories map[int]History `json:"histories,omitempty"`
	// Table assigns slots to shards for AssignReceive. It is nil if nothing moves by table.
	Table *Table `json:"table,omitempty"`
	// Parked reports whether no pod may run. It is true from before the last pods stop until the spec wants pods again.
	Parked bool `json:"parked,omitempty"`
	// Pods holds the number of pods that may run in each shard, by ordinal, while replicas stop before their masters.
	// If it is nil, all pods may run.
	Pods []int `json:"pods,omitempty"`
	// Consents are the used values of the annotation accept-data-loss. A value that stays in the annotation counts once: it does not cover
	// a later loss of the same slots.
	Consents []string `json:"consents,omitempty"`
	// GivenUp holds the ids of nodes whose loss was accepted. If such a node returns after another node has taken over
	// its slots, it is not a member.
	GivenUp []string `json:"givenUp,omitempty"`
	// Accepted are the slots without an owner whose loss was accepted.
	Accepted SlotSet `json:"accepted,omitempty"`
}

// Table holds the targets of AssignReceive. Decide makes it once per generation, and then follows it.
type Table struct {
	Generation int64           `json:"generation"`
	Targets    map[int]SlotSet `json:"targets"` // shard ordinal -> the slots it receives
}

// Wanted is the desired state from the spec.
type Wanted struct {
	Generation int64
	Shards     []int // pods of each shard, by ordinal; a shard of one pod has no replica
	// Parked reports whether no pod is wanted. Data and record stay, and Shards is nil.
	Parked bool
	// Assign are the entries of assignStrategies, for AssignReceive; nil for AutoReceive. The i-th entry belongs to the i-th new shard.
	Assign []Assignment
	// NodeTimeout is cluster-node-timeout.
	NodeTimeout time.Duration
	// WellFor is the time for which a pod must have been ready without a restart before the next pod is replaced.
	WellFor time.Duration
	// Settings are set on a running Redis, by CONFIG SET.
	Settings map[string]string
	// Consent lists the values of the annotation accept-data-loss: node ids, slot ranges, or keep: and a node id.
	Consent []string
	// Restores reports whether the cluster begins with a backup on the first node of each shard.
	Restores bool
	// Announced reports whether pods can see that the cluster has begun. From then on, no volume gets the backup.
	Announced bool
}

// Assignment is one entry of assignStrategies.
type Assignment struct {
	Slots int
	From  []string // node ids or names of pods
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"time"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// Node is one pod of the cluster: what Kubernetes says of it, and what its Redis said in this pass.
type Node struct {
	Pod  string // its name; the identity of a place in the cluster that outlives the process
	UID  string // of the pod; a step proves with it that the pod is still the observed one
	Host string // the Kubernetes node it runs on; empty while it is not scheduled
	Zone string // the topology zone of Host; empty if unknown

	Shard   int // the ordinal of its StatefulSet
	Ordinal int // its ordinal within the StatefulSet

	IP          string // empty while it has none
	Running     bool   // its Redis container runs
	Ready       bool   // the pod is ready
	Terminating bool   // the pod is being deleted
	Outdated    bool   // the pod has another revision than its StatefulSet wants

	// NeverUp reports whether the Redis container has served nothing in this pod: it never ran here, or it ended
	// again and again before the pod was ready once. No process loses anything when such a pod is deleted, and its
	// volume stays.
	NeverUp bool

	// LostData reports whether the container refuses to start because its data is gone while its node id
	// is not. It must not start as a new, empty node in the same pod: its former replicas find it at
	// their master's address, and copy its emptiness. A new pod has another address.
	LostData bool

	// NotStarted is why the container does not start on its volume, in its own words: a damaged file, or the volume of another.
	NotStarted string

	// Locked reports whether Redis refuses the password that others take and that a new pod would start with: the
	// Secret had another one when this pod started.
	Locked bool

	// Failures are steps on this node that failed and are not due again yet.
	Failures []Failure

	// Reached reports whether Redis answered everything that was asked. Nothing below is known if not,
	// and Problem says why: connection refused, no answer within 2s, wrong password, loading its data.
	Reached bool
	Problem string
	// Loading reports whether Redis answered that it is still reading its data. It is not Reached then.
	Loading bool

	ID          string // CLUSTER MYID
	RunID       string // run_id of INFO: another one after each start of the server
	Uptime      time.Duration
	View        []Entry // CLUSTER NODES: the cluster as this node sees it, itself included
	StateOK     bool    // cluster_state:ok of CLUSTER INFO
	Replication Replication
	Keys        int64 // DBSIZE
	UsedMemory  int64 // bytes
	MaxMemory   int64 // bytes; 0 is no limit
	Evicts      bool  // at maxmemory it removes keys of its choice, instead of refusing writes
	// Refuses says what the node refuses to do for clients though it runs, and why: a full disk or memory, too few replicas,
	// too many connections. Empty if nothing.
	Refuses string
	Saving  bool   // a BGSAVE or a rewrite of the append-only file is running
	Version string // redis_version, such as 7.0.15
	// Settings are the values that the node has of the settings that were asked for.
	Settings map[string]string
	// SlotKeys are the keys that the node holds of each slot that is open on any node (COUNTKEYSINSLOT).
	// Every reached master is asked for every such slot; nothing is decided about one that is missing.
	SlotKeys map[int]int64
	// Functions is the digest of FUNCTION DUMP, empty when the node has none.
	Functions string
	// At is when the node was read, by its own clock. The times in View are by the same clock.
	At time.Time
}

// Failure is a step that failed a short time ago. Decide leaves it out, so that others are taken meanwhile.
type Failure struct {
	Action Action
	Mode   string
	Target string  // the Subject of the step
	Into   bool    // no move to this node is due, from wherever
	Slots  SlotSet // that failed; empty: the whole step
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

// Replication is what INFO replication says.
type Replication struct {
	Master     bool
	MasterHost string // of a replica
	MasterPort int
	LinkUp     bool  // master_link_status:up
	Syncing    bool  // a full synchronisation is running
	Offset     int64 // master_repl_offset, or slave_repl_offset of a replica
	Replicas   int   // connected ones

	// ID names the history that the node's data is of: master_replid. A start of the server and a promotion make a new one,
	// a replica takes its master's. FormerID (master_replid2) is that of the master of before, whose history it continues.
	ID, FormerID string
	// LinkDown is for how long a replica has no link to its master. It is NeverLinked if it had none since its server started.
	LinkDown time.Duration
}

// NeverLinked is the LinkDown of a replica that copied from nobody since its server started.
const NeverLinked = time.Duration(-1)

// History names the data of a shard, as master and replica had it in common. It is recorded while a replica is in step.
type History struct {
	Node string `json:"node"` // id of the master
	Run  string `json:"run"`  // its run id
	Repl string `json:"repl"` // its replication id
}

// Entry is one line of CLUSTER NODES: a node as another one, or it itself, sees it.
type Entry struct {
	ID       string
	IP       string // empty if the address is not known
	Port     int
	BusPort  int
	Hostname string

	Myself, Master, Replica                  bool
	Fail, PossiblyFail, Handshake, NoAddress bool
	MasterID                                 string // of a replica; empty otherwise
	PingSent, PongReceived                   time.Time
	Epoch                                    uint64
	Connected                                bool // link-state
	Owned                                    SlotSet
	Migrating                                map[int]string // slot -> id of the target; only on the node's own line
	Importing                                map[int]string // slot -> id of the source; only on the node's own line
}

// Record is what cannot be observed and is therefore written down, in an object that outlives the
// RedisCluster as its data does. It is written before the first step that needs it.
type Record struct {
	// Formed reports whether slots were ever assigned. Pods that are all empty are a new cluster only
	// if not.
	Formed bool `json:"formed,omitempty"`
	// Shards are the numbers of pods of the shards, by ordinal, that were ever part of the cluster and
	// were not removed from it. The plan keeps them until they are drained.
	Shards []int `json:"shards,omitempty"`
	// Nodes are the ids of the nodes that were members, by pod. A pod with another id has lost its data.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Histories are those of the shards, by ordinal. A replica replaces a lost master only with the history of its shard.
	Histories map[int]History `json:"histories,omitempty"`
	// Table says where slots go, for AssignReceive; nil when there is nothing to move by table.
	Table *Table `json:"table,omitempty"`
	// Consents are the values of the annotation accept-data-loss that were acted upon. One that is still
	// in the annotation counts only once: it does not cover a later loss of the same slots.
	Consents []string `json:"consents,omitempty"`
	// GivenUp are the nodes whose loss was consented to. One that comes back is no member once another owns its slots.
	GivenUp []string `json:"givenUp,omitempty"`
	// Accepted are the slots whose loss was consented to and that no node owns yet.
	Accepted SlotSet `json:"accepted,omitempty"`
}

// Table is the targets of AssignReceive, made once for one generation and then followed.
type Table struct {
	Generation int64           `json:"generation"`
	Targets    map[int]SlotSet `json:"targets"` // shard ordinal -> the slots it receives
}

// Wanted is what the resource asks for.
type Wanted struct {
	Generation int64
	Shards     []int // pods of each shard, by ordinal; at least 2 each
	// Assign are the entries of assignStrategies, for AssignReceive; nil for AutoReceive. The i-th
	// belongs to the i-th new shard.
	Assign []Assignment
	// NodeTimeout is cluster-node-timeout.
	NodeTimeout time.Duration
	// Settings are those that are changed on a running Redis, by CONFIG SET.
	Settings map[string]string
	// Consent is what the annotation accept-data-loss names: node ids or slot ranges.
	Consent []string
	// Restores reports whether the cluster is formed of nodes that a backup was put on: the first of each shard.
	Restores bool
	// Announced reports whether pods can see that the cluster has begun, so that a backup is put on no volume any more.
	Announced bool
}

// Assignment is one entry of assignStrategies.
type Assignment struct {
	Slots int
	From  []string // node ids or names of pods
}

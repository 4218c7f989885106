// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import "time"

// Result is the last line that a command prints, and its termination message. Fields that do not apply to the command are left out.
type Result struct {
	// Command is the command's name, such as backup.
	Command string `json:"command"`
	// OK reports whether the command did everything that was requested.
	OK bool `json:"ok"`
	// Reason and Message hold the cause of a failure.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	// ID is the ID of the backup that was made, restored or verified.
	ID string `json:"id,omitempty"`
	// Verified reports whether the backup was restored and matches its manifest. A command may fail although Verified
	// is true, for example because an archive cannot be replayed.
	Verified bool `json:"verified,omitempty"`
	// Bytes counts the uncompressed bytes of the dump, StoredBytes its bytes in the store.
	Bytes       int64 `json:"bytes,omitempty"`
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// Tables and Rows count the dumped, loaded or checked tables and rows; of a Redis Cluster, shards and keys.
	Tables int   `json:"tables,omitempty"`
	Rows   int64 `json:"rows,omitempty"`
	// Server is the version of the database server, such as 10.11.19-MariaDB.
	Server string `json:"server,omitempty"`
	// Position is the position of the data in the binary log; nil without a binary log.
	Position *Position `json:"position,omitempty"`
	// Revision is a revision of etcd that the backup includes; 0 for other databases. The backup may include later revisions.
	Revision int64 `json:"revision,omitempty"`
	// RestoredTo is the commit time of the last transaction that a replay applied; nil if it applied none.
	RestoredTo *time.Time `json:"restoredTo,omitempty"`
	// Transactions is the number of transactions that a replay applied.
	Transactions int64 `json:"transactions,omitempty"`
	// Later counts the transactions of the archive after the end of the restore; nil if unknown.
	Later *Later `json:"later,omitempty"`
	// Fence is the state of the server's fence, for `agent fence`; nil for other commands.
	Fence *Fence `json:"fence,omitempty"`
	// Seconds is the duration of the command.
	Seconds float64 `json:"seconds,omitempty"`
	// Warnings lists problems of a command that succeeded, such as tables that no snapshot covers.
	Warnings []string `json:"warnings,omitempty"`
	// Removed are the backups, timelines and leftovers that were removed.
	Removed []string `json:"removed,omitempty"`
	// Backups and Timelines are the catalogue, newest first.
	Backups   []Backup   `json:"backups,omitempty"`
	Timelines []Timeline `json:"timelines,omitempty"`
}

// Position is a place in a binary log.
type Position struct {
	File   string `json:"file"`
	Offset uint64 `json:"offset"`
	// GTID is the set of executed GTIDs in the server's notation; empty if the server keeps none.
	GTID string `json:"gtid,omitempty"`
}

// Later describes the archived transactions that were committed after the end of a restore.
type Later struct {
	// Transactions counts the transactions after the end of the restore.
	Transactions int64 `json:"transactions"`
	// First is the commit time of the first transaction; nil if there are none.
	First *time.Time `json:"first,omitempty"`
	// Reached is the time, by the server's clock, up to which all commits are counted.
	Reached time.Time `json:"reached"`
}

// Stages of a restore, in the order in which a restore reports them.
const (
	StageReplay = "replaying" // after the load of the backup: transactions of the archive are applied
	StageCheck  = "checking"  // after the load of all data: tables are checked
)

// Backup is an entry of the catalogue. Damaged names a missing object of the backup: without that object, the backup cannot be restored.
type Backup struct {
	ID          string     `json:"id"`
	Started     time.Time  `json:"started"`
	Completed   time.Time  `json:"completed"`
	Server      string     `json:"server"`
	Bytes       int64      `json:"bytes"`
	StoredBytes int64      `json:"storedBytes"`
	Tables      int        `json:"tables"`
	Rows        int64      `json:"rows"`
	Encrypted   bool       `json:"encrypted"`
	Position    *Position  `json:"position,omitempty"`
	Verified    *time.Time `json:"verified,omitempty"`
	Failed      string     `json:"verificationFailed,omitempty"`
	Damaged     string     `json:"damaged,omitempty"`
	// Base is the form of the data in the manifest: empty for a dump, files or physical for a copy of files.
	Base string `json:"base,omitempty"`
	// Writer is the id of the resource whose data the backup contains.
	Writer string `json:"writer,omitempty"`
}

// Timeline is a part of the binary log without a gap.
type Timeline struct {
	Name string `json:"name"`
	// From and To are the first and the last position of the timeline.
	From Position `json:"from"`
	To   Position `json:"to"`
	// Reached is the time up to which the archive contains all commits.
	Reached time.Time `json:"reached"`
	// Damaged names the missing part: the timeline ends before it.
	Damaged string `json:"damaged,omitempty"`
}

// Archive is the response of `agent archive` at /ready.
type Archive struct {
	Timeline string `json:"timeline,omitempty"`
	// Reached is the time, by the server's clock, up to which the archive contains all commits.
	Reached time.Time `json:"reached,omitzero"`
	// Base is the newest backup to which the timeline can be applied. Without one, the latest points in time cannot be restored.
	Base string `json:"base,omitempty"`
	// Problem is the reason why the database cannot be restored to the latest points in time; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// Progress is a line that a command prints while it works, every few seconds.
type Progress struct {
	// Progress names the present action of the command, such as dump or replay.
	Progress string `json:"progress"`
	Bytes    int64  `json:"bytes"`
	// TotalBytes is the expected final value of Bytes; 0 if unknown.
	TotalBytes int64 `json:"totalBytes,omitempty"`
	Tables     int   `json:"tables,omitempty"`
}

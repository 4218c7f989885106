// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// ImportPhase is a stage of an import.
type ImportPhase string

// The phases of an import.
const (
	ImportConnecting ImportPhase = "Connecting" // the source has not answered yet
	ImportDumping    ImportPhase = "Dumping"    // the import reads the source's data
	ImportLoading    ImportPhase = "Loading"    // the import loads the source's dump into the copy
	ImportFollowing  ImportPhase = "Following"  // the copy applies the changes in the source's binary log
	ImportWaiting    ImportPhase = "Waiting"    // the copy was made; the source has no log from which the copy could apply changes
	ImportComparing  ImportPhase = "Comparing"  // the last changes were applied; source and copy are compared
	ImportRefused    ImportPhase = "Refused"    // the copy differs from the source
	ImportDone       ImportPhase = "Done"       // the copy is the database
)

// Import is the state of an import: the response of `agent import` at /state, and its lines of progress.
type Import struct {
	Phase ImportPhase `json:"phase"`
	// Server is the version of the source.
	Server string `json:"server,omitempty"`
	// Behind is the age in seconds of the oldest change that the copy may lack; nil until the phase ImportFollowing begins.
	Behind *int64 `json:"behind,omitempty"`
	// Position is the position in the source's binary log up to which the copy has all changes. Its GTID is set only for MariaDB.
	Position *Position `json:"position,omitempty"`
	// Transactions is the number of transactions applied since the dump.
	Transactions int64 `json:"transactions,omitempty"`
	// Bytes is the number of bytes of the dump that were read or loaded, TotalBytes the size of the dump; 0 if unknown.
	Bytes      int64 `json:"bytes,omitempty"`
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// Reason and Message describe the last failure, or the condition that the import waits for. They are empty if there
	// is neither.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Begun counts the copies that were started. Again is the reason why the previous copy was abandoned; "" if no copy was abandoned.
	Begun int    `json:"begun,omitempty"`
	Again string `json:"again,omitempty"`
	// CutOver reports whether the cut-over is requested.
	CutOver bool `json:"cutOver,omitempty"`
}

// Fence is the state of a server's fence, in the result of `agent fence`. A fenced server acknowledges no write.
type Fence struct {
	// Server is the version of the server.
	Server string `json:"server"`
	// ReadOnly reports whether only privileged accounts can write, SuperReadOnly whether no account can.
	ReadOnly      bool `json:"readOnly,omitempty"`
	SuperReadOnly bool `json:"superReadOnly,omitempty"`
	// HasLog reports whether the server has a binary log in row format, from which a copy can apply changes.
	HasLog bool `json:"hasLog,omitempty"`
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// The keys of the record of a database's data: a ConfigMap that the operator writes, and that `agent guard` reads as files.
const (
	RecordAllowServer = "allowServer" // set by a user: the release series that may start on data of another series
	RecordClaim       = "claim"       // UID of the claim with the data
	RecordID          = "id"          // id of the mark on the volume; missing if the pod has not reported an id
	RecordReplacedBy  = "replacedBy"  // name of the database that replaced this one; while set, `agent guard` lets no server start on this data
)

// Refusal is the termination message of a container that does not let a server start. Scripts of charts write the same message.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Guarded is the termination message of `agent guard` if the server may start.
type Guarded struct {
	// ID is the id of the volume's mark; empty for a volume without a mark.
	ID string `json:"id,omitempty"`
	// FirstStart reports whether the server starts on an empty folder.
	FirstStart bool `json:"firstStart,omitempty"`
}

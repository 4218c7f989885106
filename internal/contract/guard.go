// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// Refusal is the termination message of a container that does not let a server start. Scripts of charts write the same.
type Refusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Guarded is the termination message of `agent guard` where the server may start.
type Guarded struct {
	// ID is the id of the volume's mark; empty for a volume without a mark.
	ID string `json:"id,omitempty"`
	// FirstStart reports whether the server starts on an empty folder.
	FirstStart bool `json:"firstStart,omitempty"`
}

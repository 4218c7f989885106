// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// Environment variables that commands read. A variable with the suffix InFile contains the name of the file with the value.
const (
	EnvUser       = "AGENT_USER"
	EnvPassword   = "AGENT_PASSWORD"
	EnvIdentities = "AGENT_IDENTITIES"
	InFile        = "_FILE"
)

// PathState is the path at which the agent's HTTP servers report their state.
const PathState = "/state"

// TicketCutOver is the value of the annotation that ends the import in a pod. The value may continue with a space and
// the loss that the user accepts.
const TicketCutOver = "cut-over"

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs the MySQL server of a member as its child process. The server ends with the agent. If only the server ends, the
// agent starts it again.
//
// A started server is read-only. A ticket allows further actions. It is an annotation on the pod, which the downward API shows as a file:
//
//	seed       create the first data, on an empty volume
//	adopt      convert the data of a single server on the volume to the data of this member
//	join       copy the data of the primary by CLONE, on an empty volume or as a replacement of the member's data
//	primary    become the primary
//	fence      kill the server if it is a primary
//
// The operator sends all other orders through the API; see package mysql. New data is created in a second folder; see package volume.
//
// # Watchdog
//
// The agent kills a primary that needs acknowledgements in three cases:
//
//   - Semi-sync does not protect the primary.
//   - Neither the operator nor a voter has reached the primary for some seconds. (Voters ping the agent of the primary.)
//   - The server does not answer its agent. For example, a change of accounts blocks all logins while it waits for an
//     acknowledgement.
//
// # Accounts
//
// Files declare databases, accounts of clients and passwords. On a primary, the agent creates the databases and accounts, and sets the
// passwords. It changes accounts only while a voter is connected. It writes nothing if everything exists.
package supervisor

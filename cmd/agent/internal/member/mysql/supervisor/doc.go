// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs the MySQL server of a member as its child. The server ends with the agent, and starts again when it ends.
//
// A started server only reads. A ticket allows more. It is an annotation on the pod, which the downward API shows as a file:
//
//	seed       make the first data, on an empty volume
//	join       copy the data of the primary by CLONE, on an empty volume or in the place of the member's data
//	primary    become the primary
//	fence      kill the server if it is a primary
//
// or an order of the operator through the API; see package mysql. New data is made in a second folder; see package volume.
//
// # Watchdog
//
// The server is killed when semi-sync does not protect a primary that needs acknowledgements, when such a primary hears
// neither the operator nor a voter for some seconds, and when it does not answer its agent: a change of accounts that waits for an
// acknowledgement blocks all logins. Voters ping the agent of the member that they follow.
//
// # Accounts
//
// A primary gets the databases, the account of clients and the passwords that files declare. Statements that change accounts are executed
// only while a voter is connected, and nothing is written if all is there.
package supervisor

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contract defines the interface between the agent and its callers, which are the operator and the kubectl plugin: exit codes,
// reasons, the JSON that a command prints on its last line, the requests and answers of the agent's servers, tickets, and the rule for
// secrets. Both sides use these types: a field that is renamed on only one side does not compile.
//
// A pod may run an older agent than the operator, or a newer one. So JSON names, reasons and exit codes never change their meaning, readers
// ignore unknown fields of results and answers, and testdata contains the output of an older agent.
//
// The package imports only the standard library, and is a module without requirements, so that the agent gets none of the operator's
// dependencies.
package contract

import (
	"errors"
	"fmt"
)

// Reason is the kind of a failure, in CamelCase.
type Reason string

// The reasons. Each has a distinct exit code. docs/backup.md lists the reasons for which a retry may help.
const (
	// ReasonFailed: any other failure; the message names the cause.
	ReasonFailed Reason = "Failed"
	// ReasonUsage: the flags or the environment of the command are wrong.
	ReasonUsage Reason = "Usage"
	// ReasonRefused: a person must decide.
	ReasonRefused Reason = "Refused"
	// ReasonAccessDenied: the database server refused the account or its password.
	ReasonAccessDenied Reason = "AccessDenied"
	// ReasonServerUnreachable: the database server cannot be reached, or the connection to it broke.
	ReasonServerUnreachable Reason = "ServerUnreachable"
	// ReasonStoreUnreachable: the store cannot be reached, or does not answer.
	ReasonStoreUnreachable Reason = "StoreUnreachable"
	// ReasonStoreMissing: the bucket or the folder does not exist.
	ReasonStoreMissing Reason = "StoreMissing"
	// ReasonStoreFull: the store has no room left.
	ReasonStoreFull Reason = "StoreFull"
	// ReasonStoreDenied: the store refused the credentials.
	ReasonStoreDenied Reason = "StoreDenied"
	// ReasonWrongKey: the private key does not open the stored objects.
	ReasonWrongKey Reason = "WrongKey"
	// ReasonNewerFormat: the store holds a format that is newer than this agent.
	ReasonNewerFormat Reason = "NewerFormat"
	// ReasonNotFound: the store has no such backup, or no backup that is old enough for the requested time.
	ReasonNotFound Reason = "NotFound"
	// ReasonDamaged: a stored object differs from what was written.
	ReasonDamaged Reason = "Damaged"
	// ReasonBusy: another agent is working, slots or masters of a Redis Cluster are moving, or a member of a MySQLCluster has transactions
	// that the primary lacks.
	ReasonBusy Reason = "Busy"
	// ReasonDumpFailed: the dump program failed, or its output is incomplete.
	ReasonDumpFailed Reason = "DumpFailed"
	// ReasonLockWait: a long query of the server keeps the dump from starting.
	ReasonLockWait Reason = "LockWait"
	// ReasonNotEmpty: the place to restore into is not empty.
	ReasonNotEmpty Reason = "NotEmpty"
	// ReasonGap: the server has removed binary logs that were not archived.
	ReasonGap Reason = "Gap"
	// ReasonMismatch: the restored data differs from the manifest.
	ReasonMismatch Reason = "Mismatch"
	// ReasonLoadFailed: the server refused a statement of the dump, or an event of the binary log.
	ReasonLoadFailed Reason = "LoadFailed"
	// ReasonNoBinaryLog: the server keeps no binary log.
	ReasonNoBinaryLog Reason = "NoBinaryLog"
)

// Exits contains the exit code of each reason. A code never changes its meaning.
var Exits = map[Reason]int{
	ReasonFailed: 1, ReasonUsage: 2, ReasonRefused: 3, ReasonAccessDenied: 10, ReasonServerUnreachable: 11,
	ReasonStoreUnreachable: 20, ReasonStoreMissing: 21, ReasonStoreFull: 22, ReasonStoreDenied: 23, ReasonWrongKey: 30,
	ReasonNewerFormat: 31, ReasonNotFound: 32, ReasonDamaged: 33, ReasonMismatch: 34, ReasonBusy: 40, ReasonDumpFailed: 41,
	ReasonLockWait: 42, ReasonNotEmpty: 43, ReasonGap: 44, ReasonLoadFailed: 45, ReasonNoBinaryLog: 46,
}

// Error is a failure of a known kind.
type Error struct {
	Reason Reason
	err    error
}

// Error returns the attempted action with its object, the cause and, where known, the next step.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.err }

// Errorf returns an Error with the text and the causes of fmt.Errorf.
func Errorf(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}

// ReasonOf returns the outermost reason that err carries, or ReasonFailed.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ReasonFailed
}

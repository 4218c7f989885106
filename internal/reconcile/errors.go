// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrPlanAgain reports that the plan is outdated and must be made again: the values of an existing Secret were adopted, or a record was
// changed or deleted.
var ErrPlanAgain = errors.New("a Secret or a record of the operator has changed since the plan was made: the operator plans again")

// SecretError is an error about a Secret of a plan.
type SecretError struct{ Err error }

func (e *SecretError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SecretError) Unwrap() error { return e.Err }

// PartError is the error of one part.
type PartError struct {
	Part string
	Err  error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// PruneError is an error while removing objects that are no longer planned.
type PruneError struct{ Err error }

func (e *PruneError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PruneError) Unwrap() error { return e.Err }

// RefusedError reports that the API server would refuse a planned object. Nothing of the owner's new spec was written. In objects that
// the new spec does not change, edits by other writers were corrected.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// IsNamespaceEnding reports whether an error was caused by the deletion of the owner's namespace.
func IsNamespaceEnding(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"d3os.com/d3os-operator/internal/apply"
)

const (
	// transientFor is the time for which a transient failure is retried before it is reported.
	transientFor = 3 * time.Second
	retryRefused = time.Minute // see Parts.RetryRefused
)

// stepError holds the reason why a reconciliation failed, and the time of the next try.
type stepError struct {
	reason     string
	err        error
	stalled    bool          // only a change by a user or by another program can end the failure
	final      bool          // the change that ends the failure triggers an event, so no retry is needed
	transient  bool          // the failure is likely to end without a change
	retryAfter time.Duration // delay of the retry, instead of back-off
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// classify returns the reason for an error. If a policy refused the spec, the next try is after the duration `again`.
func classify(err error, again time.Duration) *stepError {
	var (
		known      *stepError
		mistake    *SpecError
		refused    *RefusedError
		conflict   *apply.ConflictError
		notAdopted *apply.NotAdoptedError
		newer      *apply.NewerError
		contested  *apply.ContestedError
		secret     *SecretError
		prune      *PruneError
	)
	result := &stepError{reason: ReasonApplyFailed, err: err, stalled: apierrors.IsInvalid(err), transient: isTransient(err)}
	switch {
	case errors.As(err, &known) && known.stalled:
		return known
	case errors.As(err, &known):
		result.reason = known.reason
	case errors.As(err, &mistake):
		return &stepError{reason: mistake.Reason, err: err, stalled: true, final: true}
	case errors.As(err, &refused) && apierrors.IsInvalid(err) && !byPolicy(err):
		return &stepError{reason: ReasonInvalidSpec, err: err, stalled: true, final: true}
	case errors.As(err, &refused) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)):
		err = fmt.Errorf("%w; the operator tries again every %s, because the policy may change", err, duration.HumanDuration(again))
		return &stepError{reason: ReasonInvalidSpec, err: err, stalled: true, retryAfter: again}
	case errors.As(err, &conflict):
		return &stepError{reason: ReasonObjectConflict, err: err, stalled: true}
	case errors.As(err, &notAdopted):
		return &stepError{reason: ReasonNotAdopted, err: err, stalled: true}
	case errors.As(err, &newer):
		return &stepError{reason: ReasonNewerOperator, err: err, stalled: true, final: true}
	case errors.As(err, &contested):
		return &stepError{reason: ReasonContested, err: err, retryAfter: contested.RetryAfter}
	case errors.As(err, &secret):
		result.reason = ReasonCredentialsFailed
	case errors.As(err, &prune):
		result.reason = ReasonPruneFailed
	}
	return result
}

// byPolicy reports whether a ValidatingAdmissionPolicy refused an object as invalid. Such an error names no field, whereas errors of the
// API server's validation always name one.
func byPolicy(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "" })
}

// isTransient reports whether an error is likely to pass by itself: another writer was faster, the API server is busy or unreachable, or
// this replica is about to stop.
func isTransient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsUnexpectedServerError(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, context.Canceled) || errors.Is(err, ErrNotHeld) || errors.Is(err, ErrAgain)
}

// failures stores, for each failing resource, the time at which it began to fail.
type failures struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	now   func() time.Time
}

func newFailures() *failures {
	return &failures{since: map[types.NamespacedName]time.Time{}, now: time.Now}
}

// lasts reports whether a resource has been failing for so long that the status must report it.
func (f *failures) lasts(key types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now().Sub(f.start(key)) >= transientFor
}

// begin records the present time as the start of a resource's failure, unless a start is recorded.
func (f *failures) begin(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start(key)
}

// has reports whether a resource is recorded as failing.
func (f *failures) has(key types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.since[key].IsZero()
}

// start returns the time at which a resource began to fail: now, if no start is recorded.
func (f *failures) start(key types.NamespacedName) time.Time {
	if f.since[key].IsZero() {
		f.since[key] = f.now()
	}
	return f.since[key]
}

func (f *failures) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, key)
}

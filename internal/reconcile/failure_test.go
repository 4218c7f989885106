// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func answer(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "m"}}
}

// A temporary error is retried without a report. If an admission webhook or a policy refuses the spec, the next try is
// after a minute. An error that only a change of the resource can end is not retried.
func TestClassify(t *testing.T) {
	t.Parallel()
	assert.Equal(t, NewReconciler(actor{}, metrics.SeriesOf(t.Name()), Parts{}).retryRefused, time.Minute)
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "auth",
		field.ErrorList{field.Required(field.NewPath("spec", "template"), "")})
	policy := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "auth", nil)
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no sidecars"}}
	for name, test := range map[string]struct {
		err  error
		want stepError
	}{
		"conflict":                   {apierrors.NewConflict(deployments, "auth", nil), stepError{reason: ReasonApplyFailed, transient: true}},
		"too many requests":          {apierrors.NewTooManyRequests("busy", 1), stepError{reason: ReasonApplyFailed, transient: true}},
		"internal error":             {answer(500, metav1.StatusReasonInternalError), stepError{reason: ReasonApplyFailed, transient: true}},
		"unavailable":                {apierrors.NewServiceUnavailable("away"), stepError{reason: ReasonApplyFailed, transient: true}},
		"server timeout":             {apierrors.NewServerTimeout(deployments, "update", 1), stepError{reason: ReasonApplyFailed, transient: true}},
		"timeout":                    {apierrors.NewTimeoutError("slow", 1), stepError{reason: ReasonApplyFailed, transient: true}},
		"the operator stops":         {context.Canceled, stepError{reason: ReasonApplyFailed, transient: true}},
		"out of time":                {context.DeadlineExceeded, stepError{reason: ReasonApplyFailed}},
		"forbidden":                  {answer(403, metav1.StatusReasonForbidden), stepError{reason: ReasonApplyFailed}},
		"invalid":                    {invalid, stepError{reason: ReasonApplyFailed, stalled: true}},
		"dry run: invalid":           {&RefusedError{Err: invalid}, stepError{reason: ReasonInvalidSpec, stalled: true, final: true}},
		"dry run: webhook 400":       {&RefusedError{Err: answer(400, metav1.StatusReasonBadRequest)}, stepError{reason: ReasonInvalidSpec, stalled: true, retryAfter: time.Minute}},
		"dry run: webhook 403":       {&RefusedError{Err: answer(403, metav1.StatusReasonForbidden)}, stepError{reason: ReasonInvalidSpec, stalled: true, retryAfter: time.Minute}},
		"dry run: policy 422":        {&RefusedError{Err: policy}, stepError{reason: ReasonInvalidSpec, stalled: true, retryAfter: time.Minute}},
		"dry run: busy":              {&RefusedError{Err: apierrors.NewTooManyRequests("busy", 1)}, stepError{reason: ReasonApplyFailed, transient: true}},
		"prune: conflict":            {&PruneError{Err: apierrors.NewConflict(deployments, "auth", nil)}, stepError{reason: ReasonPruneFailed, transient: true}},
		"contested":                  {&apply.ContestedError{RetryAfter: time.Second}, stepError{reason: ReasonContested, retryAfter: time.Second}},
		"an object of another owner": {&apply.ConflictError{}, stepError{reason: ReasonObjectConflict, stalled: true}},
		"a mistake":                  {&SpecError{Reason: "X", Err: context.Canceled}, stepError{reason: "X", stalled: true, final: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := classify(fmt.Errorf("auth: %w", test.err), time.Minute)
			assert.Equal(t, stepError{got.reason, nil, got.stalled, got.final, got.transient, got.retryAfter}, test.want)
			assert.ErrorIs(t, got, test.err)
		})
	}
}

// A failure that is likely to pass is reported after some time, counted from its first occurrence.
func TestFailuresLast(t *testing.T) {
	t.Parallel()
	f, now, key := newFailures(), time.Unix(1000, 0), types.NamespacedName{Namespace: "a", Name: "b"}
	f.now = func() time.Time { return now }
	assert.Assert(t, !f.lasts(key))
	now = now.Add(transientFor - time.Millisecond)
	assert.Assert(t, !f.lasts(key))
	now = now.Add(time.Millisecond)
	assert.Assert(t, f.lasts(key))
	assert.Assert(t, !f.lasts(types.NamespacedName{Namespace: "a", Name: "other"}))
	f.forget(key)
	assert.Assert(t, !f.lasts(key))
}

// The API server accepts notes of at most 1,024 bytes, and only in UTF-8.
func TestCut(t *testing.T) {
	t.Parallel()
	short := strings.Repeat("é", noteLimit/2)
	assert.Equal(t, cut(short, noteLimit), short)
	for _, long := range []string{strings.Repeat("x", noteLimit+1), strings.Repeat("é", noteLimit), "x" + strings.Repeat("é", noteLimit), strings.Repeat("文", noteLimit)} {
		got := cut(long, noteLimit)
		assert.Assert(t, len(got) <= noteLimit && len(got) > noteLimit-8, "%d bytes", len(got))
		assert.Assert(t, utf8.ValidString(got))
		assert.Assert(t, strings.HasSuffix(got, "...") && strings.HasPrefix(long, strings.TrimSuffix(got, "...")))
	}
}

// Of several failures, the failure with the earliest retry determines the delay: a contested object, which waits for minutes, delays no
// other failure.
func TestSoonestRetryOfSeveralFailuresDecides(t *testing.T) {
	t.Parallel()
	contested := func(after time.Duration) error { return fmt.Errorf("a: %w", &apply.ContestedError{RetryAfter: after}) }
	plain := errors.New("refused")
	for name, test := range map[string]struct {
		failures []error
		want     int
	}{
		"none":                      {[]error{nil, nil}, -1},
		"the first of equal ones":   {[]error{nil, plain, plain}, 1},
		"contested, then refused":   {[]error{contested(time.Minute), nil, plain}, 2},
		"the sooner contested":      {[]error{contested(time.Minute), contested(time.Second)}, 1},
		"a newer operator ends all": {[]error{plain, &apply.NewerError{}}, 1},
		"newer alone":               {[]error{nil, &apply.NewerError{}}, 1},
	} {
		assert.Equal(t, soonest(test.failures), test.want, name)
	}
}

// statusChanged passes an update whose status differs, even if the generation is the same. It passes no other event.
func TestAChangedStatusIsLookedAt(t *testing.T) {
	t.Parallel()
	before := &dsv1.DataService{Status: dsv1.DataServiceStatus{Phase: dsv1.PhaseRunning}}
	after := before.DeepCopy()
	after.ResourceVersion = "2"
	p := statusChanged()
	assert.Assert(t, !p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	after.Status.Phase = dsv1.PhaseDegraded
	assert.Assert(t, p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	assert.Assert(t, !p.Create(event.CreateEvent{Object: after}))
	assert.Assert(t, !p.Delete(event.DeleteEvent{Object: after}))
}

// A controller drops the events of other kinds' objects, and keeps those of objects that have lost or got an owner of its kind.
func TestOnlyOwnObjectsConcernAController(t *testing.T) {
	t.Parallel()
	of := func(kind string) client.Object {
		o := object.Empty(object.ConfigMapKind)
		if kind != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: dsv1.GroupVersion.String(), Kind: kind, Name: "platform", Controller: ptr.To(true)}})
		}
		return o
	}
	labelled := of("")
	labelled.SetLabels(map[string]string{object.LabelInstance: "platform"})
	p := NewReconciler(actor{}, metrics.SeriesOf(t.Name()), Parts{}).isConcerned()
	for _, test := range []struct {
		before, after client.Object
		want          bool
	}{
		{of(dsv1.Kind), of(dsv1.Kind), true},
		{of(dsv1.Kind), of("Another"), true},
		{of(""), of(dsv1.Kind), true},
		{labelled, of(""), true},
		{of("Another"), of("Another"), false},
		{of(""), of(""), false},
	} {
		assert.Equal(t, p.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), test.want)
	}
	assert.Assert(t, p.Create(event.CreateEvent{Object: labelled}) && p.Delete(event.DeleteEvent{Object: of(dsv1.Kind)}))
	assert.Assert(t, !p.Create(event.CreateEvent{Object: of("Another")}) && !p.Delete(event.DeleteEvent{Object: of("")}))
}

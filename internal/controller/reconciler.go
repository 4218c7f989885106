// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles DataServices. It is the place where the parts
// meet: graph, credentials, plan, apply, prune, health, status. Nothing in it
// waits: what may be applied is applied, what is waited for is reported, and a
// watch brings the next reconciliation.
package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/status"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// Reconciler makes the cluster follow DataServices.
type Reconciler struct {
	client      client.Client
	applier     *apply.Applier
	planner     *plan.Planner
	credentials *credentials.Keeper
	reporter    *reporter
	originals   cache.Cache // nil for none
	// leaving holds the DataServices, by their keys, whose namespace is being deleted. There is no
	// way back from that, so nothing is tried for them any more.
	leaving sync.Map
}

// New returns a Reconciler. The client must be cached with read-your-writes consistency for
// every kind in object.Kinds and for pods; live reads from the API server. Objects are signed with
// the version, and those that a newer one has signed are left alone.
func New(c client.Client, live client.Reader, planner *plan.Planner, recorder events.EventRecorder, version string) *Reconciler {
	return &Reconciler{
		client:      c,
		applier:     apply.New(c, live, version),
		planner:     planner,
		credentials: credentials.NewKeeper(),
		reporter:    newReporter(c, recorder),
	}
}

// Reconcile looks at one DataService, does what may be done now and reports what it saw.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ds := &dsv1.DataService{}
	if err := r.client.Get(ctx, request.NamespacedName, ds); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	seen, err := r.carryOut(ctx, ds)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.leaving.Store(request.NamespacedName, ds.UID)
		seen, err = status.Observation{Generation: ds.Generation, Paused: ds.Spec.Paused, Deleting: true}, nil
	}
	var failed *stepError
	if err != nil {
		failed = asStepError(err)
		seen.Failure = &status.Failure{Reason: failed.reason, Message: failed.Error(), Stalled: failed.stalled}
	}
	result, reportErr := r.reporter.report(ctx, ds, seen)
	switch {
	case reportErr != nil:
		return ctrl.Result{}, client.IgnoreNotFound(reportErr)
	case failed == nil, failed.final:
		return result, nil
	case failed.retryAfter > 0:
		return ctrl.Result{RequeueAfter: failed.retryAfter}, nil
	default:
		return ctrl.Result{}, err // retried with back-off
	}
}

func (r *Reconciler) forget(request ctrl.Request) {
	metrics.Forget(request.Namespace, request.Name)
	r.credentials.Forget(request.Namespace, request.Name)
	r.reporter.forget(request.NamespacedName)
	r.leaving.Delete(request.NamespacedName)
}

// isDeleting tells whether a DataService goes, by itself or with its namespace. Owner
// references then take everything with them.
func (r *Reconciler) isDeleting(ds *dsv1.DataService) bool {
	uid, leaving := r.leaving.Load(client.ObjectKeyFromObject(ds))
	return ds.DeletionTimestamp != nil || leaving && uid == ds.UID
}

// carryOut is the whole of a reconciliation but its report. Everything is rendered before
// anything is written, so that a spec that cannot be carried out changes nothing.
func (r *Reconciler) carryOut(ctx context.Context, ds *dsv1.DataService) (status.Observation, error) {
	seen := status.Observation{Generation: ds.Generation, Paused: ds.Spec.Paused, Deleting: r.isDeleting(ds)}
	if seen.Deleting {
		return seen, nil
	}
	owned, err := r.applier.Owned(ctx, plan.OwnerOf(ds))
	if err != nil {
		return seen, failure(dsv1.ReasonApplyFailed, err)
	}
	graph, err := r.planner.Graph(ds)
	if err != nil {
		return seen, invalid(err)
	}
	secrets, err := r.credentials.Plan(ds, graph, r.lookup(ctx, ds))
	if err != nil {
		return seen, &stepError{reason: dsv1.ReasonCredentialsFailed, err: err}
	}
	p, err := r.planner.Make(ds, graph, secrets.Credentials)
	if err != nil {
		return seen, invalid(err)
	}
	if seen.Paused {
		seen.Components, err = r.look(ctx, ds, p)
		return seen, err
	}
	if err := r.applier.CheckAdopted(ctx, plan.OwnerOf(ds), allPlanned(secrets, p)); err != nil {
		return seen, failure(dsv1.ReasonApplyFailed, err)
	}
	if err := r.preflight(ctx, p); err != nil {
		return seen, err
	}
	seen, err = r.rollout(ctx, ds, secrets, p, owned, seen)
	if errors.Is(err, errAdopted) {
		return r.carryOut(ctx, ds) // with the values in use
	}
	return seen, err
}

// errAdopted says that a Secret which the cache did not show was found, and its values are known now.
var errAdopted = errors.New("a Secret with values in use was found")

// rollout applies secrets, then components wave by wave, then prunes of what was owned before.
func (r *Reconciler) rollout(ctx context.Context, ds *dsv1.DataService, secrets *credentials.Plan, p *plan.Plan, owned []*unstructured.Unstructured, seen status.Observation) (status.Observation, error) {
	for _, secret := range secrets.Secrets {
		if err := r.applySecret(ctx, ds, secret); err != nil {
			return seen, failure(dsv1.ReasonCredentialsFailed, err)
		}
	}
	var firstErr error
	seen.Components, firstErr = r.applyComponents(ctx, ds, p)
	if err := r.prune(ctx, ds, secrets, p, owned, seen.Components); err != nil && firstErr == nil {
		firstErr = failure(dsv1.ReasonPruneFailed, err)
	}
	return seen, firstErr
}

// lookup finds Secrets and claims that carry the DataService's name, retained ones included.
func (r *Reconciler) lookup(ctx context.Context, ds *dsv1.DataService) credentials.Lookup {
	return func(kind, name string) (*unstructured.Unstructured, error) {
		wanted := object.Empty(corev1.SchemeGroupVersion.WithKind(kind))
		wanted.SetName(name)
		wanted.SetNamespace(ds.Namespace)
		live, err := r.applier.Get(ctx, wanted)
		if live == nil || err != nil || live.GetLabels()[object.LabelInstance] != ds.Name {
			return nil, err
		}
		return live, nil
	}
}

// stepError is why a reconciliation could not go on, and when to try again.
type stepError struct {
	reason     string
	err        error
	stalled    bool          // only a change from outside helps
	final      bool          // that change will bring an event, so there is nothing to retry
	retryAfter time.Duration // instead of back-off
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// invalid: the spec has to change before anything helps.
func invalid(err error) *stepError {
	reason := dsv1.ReasonRenderFailed
	var field *component.FieldError
	if errors.As(err, &field) {
		reason = dsv1.ReasonInvalidSpec
	}
	return &stepError{reason: reason, err: err, stalled: true, final: true}
}

// failure gives an error of applying or pruning its reason.
func failure(reason string, err error) *stepError {
	var conflict *apply.ConflictError
	var notAdopted *apply.NotAdoptedError
	var newer *apply.NewerError
	var contested *apply.ContestedError
	switch {
	case errors.As(err, &conflict):
		return &stepError{reason: dsv1.ReasonConflict, err: err, stalled: true}
	case errors.As(err, &notAdopted):
		return &stepError{reason: dsv1.ReasonNotAdopted, err: err, stalled: true}
	case errors.As(err, &newer):
		return &stepError{reason: dsv1.ReasonNewerOperator, err: err, stalled: true, final: true}
	case errors.As(err, &contested):
		return &stepError{reason: dsv1.ReasonContested, err: err, retryAfter: contested.RetryAfter}
	default:
		return &stepError{reason: reason, err: err, stalled: apierrors.IsInvalid(err)}
	}
}

func asStepError(err error) *stepError {
	var step *stepError
	if errors.As(err, &step) {
		return step
	}
	return &stepError{reason: dsv1.ReasonApplyFailed, err: err}
}

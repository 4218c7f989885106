// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply makes the live objects of an owner equal to its plan. If they are equal already, it writes nothing.
//
// An object is written only if its digest or a planned field differs from the plan. An object of another owner is never written. Each write
// is a server-side apply by one field manager, so that other managers keep the fields that they own.
package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// FieldManager is the manager of every field that a plan sets.
const FieldManager = object.ManagedBy

// Action names the effect of Apply on one object.
type Action string

// The actions.
const (
	Unchanged Action = ""
	Created   Action = "create"
	Updated   Action = "update"
	Corrected Action = "correct" // the live object was as planned before another writer changed it
	Replaced  Action = "replace" // the object was deleted, because Kubernetes cannot change it in place
	Waiting   Action = "wait"    // the object is being deleted; the end of the deletion triggers the next reconciliation
	Deleted   Action = "delete"
)

// Result is an object after Apply.
type Result struct {
	Object *unstructured.Unstructured // live object; nil if it was replaced
	Action Action
	// Rewrite lists the fields that an admission policy changed. It is nil if no policy changed a field.
	Rewrite *Rewrite
	// AfterReplace is set if the object was created again after this process had deleted it with the Action Replaced.
	AfterReplace bool
	// Contested is set if another writer keeps changing the number of pods. If Contested.IsExact is set, Apply has set the planned number.
	// Otherwise, the operator sets it after Contested.RetryAfter.
	Contested *ContestedError
	// Variables are the names of variables that another writer had added to planned containers, and that Apply has
	// removed.
	Variables []string
}

// ConflictError reports that an object with the planned name belongs to another owner.
type ConflictError struct {
	Kind, Name string
	Holder     string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %s exists and belongs to %s; it is not changed: rename the component or remove that object", e.Kind, e.Name, e.Holder)
}

// UnseenError reports that the owner's Secret exists with other values than the planned values, and that the cache does not show the Secret
// yet. If the caller has generated the planned values, it must use the live values instead.
type UnseenError struct{ Live *unstructured.Unstructured }

func (e *UnseenError) Error() string {
	return describe(e.Live) + " exists with other values than planned, and the operator's cache does not show them yet"
}

// Applier applies objects. It is safe for concurrent use.
type Applier struct {
	client   client.Client // reads use the cache, which shows this client's own writes
	live     client.Reader // reads use the API server
	compare  *comparer
	contests *contests
	rewrites *rewrites
	version  string // version of the operator

	preflights *preflights
	resizes    *resizes
	originals  client.Reader // nil if SeeOriginals was not called
	wanted     *wanted
	watched    watched
}

// New returns the Applier of an operator with that version. The client must have a cache with read-your-writes consistency.
func New(c client.Client, live client.Reader, types *Types, version string) *Applier {
	return &Applier{
		client: c, live: live, version: version,
		compare:  newComparer(types),
		contests: newContests(), rewrites: newRewrites(), preflights: newPreflights(), resizes: newResizes(), wanted: newWanted(),
	}
}

// Get returns the live object of a planned object from the cache, or nil. Callers must not change the result. The error is a
// *NotServedError if the API server does not serve the kind.
//
// Get reads a kind without a Go type from the API server until AddWatched is called, and begins the watch (Wanted). The consistent client of
// controller-runtime would start an informer without the handlers of the watch (v0.25.2, getConsistencyHandler in pkg/client/consistency.go),
// although the cache has ReaderFailOnMissingInformer. Then no change of the object would trigger a reconciliation.
func (a *Applier) Get(ctx context.Context, planned *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if gvk := planned.GroupVersionKind(); object.IsUntyped(gvk) && !a.watched.has(gvk) {
		a.wanted.add(gvk)
		return get(ctx, a.live, planned)
	}
	return get(ctx, a.client, planned)
}

// GetLive returns the live object of a planned object from the API server, or nil. It also finds an object without the labels by which
// the cache selects objects. The error is a *NotServedError if the API server does not serve the kind.
func (a *Applier) GetLive(ctx context.Context, planned *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return get(ctx, a.live, planned)
}

func get(ctx context.Context, from client.Reader, planned *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj := object.Empty(planned.GroupVersionKind())
	err := from.Get(ctx, client.ObjectKeyFromObject(planned), obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if isNotServed(err) {
		return nil, &NotServedError{Kind: planned.GroupVersionKind()}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(planned), err)
	}
	return obj, nil
}

// Apply creates the planned object if live is nil, and updates the live object otherwise. Errors:
//
//   - *ConflictError: the object belongs to another owner. Do not change the object, and report it.
//   - *NotAdoptedError: the object belongs to the owner, but another operator created it. Do not change the object, and
//     report it.
//   - *NewerError: a newer version of this operator wrote the object. Write no object of the owner.
//   - *ContestedError: another writer keeps changing or deleting the object. Retry after RetryAfter.
//   - *UnseenError: live was nil, but the Secret exists. Plan again with its values.
//   - any other error wraps an error of the API server.
func (a *Applier) Apply(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (Result, error) {
	if live == nil {
		result, err := a.create(ctx, owner, planned)
		return result, a.nameHolder(ctx, planned, err)
	}
	result, err := a.update(ctx, owner, planned, live)
	return result, a.nameHolder(ctx, planned, err)
}

func (a *Applier) update(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (Result, error) {
	if err := checkOwner(owner, planned, live); err != nil {
		return Result{}, err
	}
	if err := a.checkWriter(live); err != nil {
		return Result{}, err
	}
	if live.GetDeletionTimestamp() != nil {
		return Result{Object: live, Action: Waiting}, nil
	}
	planned = keep(planned, live)
	same, err := a.compare.same(planned, live)
	if err != nil {
		return Result{}, err
	}
	if same && !unchangeable(planned, live) && !hasUnplanned(planned, live) {
		metrics.SkippedWrites.WithLabelValues(live.GetKind()).Inc()
		return Result{Object: live, Contested: a.nameWriter(ctx, live, a.contests.admitNumber(planned, live))}, nil
	}
	if known, err := a.known(planned, live); err != nil || known != nil {
		return Result{Object: live, Rewrite: known}, err
	}
	if object.Digest(planned) != object.Digest(live) {
		return a.write(ctx, planned, live, same, Updated)
	}
	contested := a.nameWriter(ctx, live, a.contests.admitNumber(planned, live))
	if contested != nil && !contested.IsExact {
		planned = planned.DeepCopy()
		_ = unstructured.SetNestedField(planned.Object, podsOf(live), "spec", "replicas") // a planned workload has a spec
		// Do not call compare.same: it would record that the live object equals the plan with the declared number.
		if same, err = a.compare.contains(live, planned); err != nil || same && !hasUnplanned(planned, live) {
			return Result{Object: live, Contested: contested}, err
		}
	}
	if err := a.contests.admit(live); err != nil {
		return Result{Object: live}, err
	}
	result, err := a.write(ctx, planned, live, same, Corrected)
	result.Contested = contested
	return result, err
}

// write updates or replaces a live object that differs from the planned object. same reports whether all planned values are live, so that
// only unplanned entries must be removed (see hasUnplanned).
func (a *Applier) write(ctx context.Context, planned, live *unstructured.Unstructured, same bool, action Action) (Result, error) {
	if unchangeable(planned, live) {
		return a.replace(ctx, planned, live, errAddress)
	}
	obj := live
	if !same {
		if err := a.handOver(ctx, planned, live); err != nil {
			return Result{}, err
		}
		applied, err := a.applyOver(ctx, planned, live)
		if immutable(err) {
			return a.replace(ctx, planned, live, err)
		}
		if err != nil {
			return Result{}, fmt.Errorf("update %s: %w", describe(planned), err)
		}
		obj = applied
	}
	// Restore after the apply, because the apply removes the fields of an earlier plan.
	if hasUnplanned(planned, obj) {
		restored, err := a.restore(ctx, planned, obj)
		if err != nil {
			return Result{}, err
		}
		obj = restored
	}
	return a.answered(planned, live, obj, action)
}

// answered returns the result of an update. If an admission policy had made the same changes before the write, and has
// made them again, the write does not count as a correction.
func (a *Applier) answered(planned, live, answer *unstructured.Unstructured, action Action) (Result, error) {
	rewrite, err := a.remember(planned, answer)
	if err != nil {
		return Result{}, err
	}
	if rewrite != nil && action == Corrected {
		before, err := a.compare.deviation(planned, live)
		if err != nil {
			return Result{}, err
		}
		if signature(before) == signature(rewrite.Fields) {
			action = Unchanged
		}
	}
	result := a.wrote(answer, action)
	result.Rewrite = rewrite
	if action == Corrected {
		result.Variables = unplannedVariables(planned, live)
	}
	return result, nil
}

// applyOver applies a planned object over a live one. If a foreign entry blocks the apply, applyOver calls restore
// instead. For example, a foreign port has the name of a planned port. The API server then answers Invalid, except if a
// foreign port of the Service has the planned node port.
func (a *Applier) applyOver(ctx context.Context, planned, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj := planned.DeepCopy()
	obj.SetUID(live.GetUID()) // prevents the creation of an object, and a change of another object with this name
	err := a.apply(ctx, obj, live)
	inTheWay := apierrors.IsInvalid(err) && mayRestore(planned.GetKind()) || hasUnplanned(planned, live)
	if err == nil || immutable(err) || !inTheWay {
		return obj, err
	}
	obj, restoreErr := a.restore(ctx, planned, live)
	if apierrors.IsInvalid(restoreErr) {
		return nil, err // the plan itself is invalid, and nothing was changed
	}
	return obj, restoreErr
}

func (a *Applier) apply(ctx context.Context, obj, live *unstructured.Unstructured) error {
	a.stamp(obj, live)
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj),
		client.FieldOwner(FieldManager), client.ForceOwnership)
}

func (a *Applier) wrote(obj *unstructured.Unstructured, action Action) Result {
	obj.SetManagedFields(nil)
	metrics.Writes.WithLabelValues(obj.GetKind(), string(action)).Inc()
	if action == Corrected {
		metrics.DriftCorrections.WithLabelValues(obj.GetKind()).Inc()
	}
	return Result{Object: obj, Action: action}
}

// replace deletes an object that Kubernetes refuses to change in place. The end of the deletion triggers the next reconciliation, which
// creates the object again. The pods of a StatefulSet keep running if the new StatefulSet will adopt them. An object with data is not
// deleted. In that case, the error wraps refused, the API server's reason.
func (a *Applier) replace(ctx context.Context, planned, live *unstructured.Unstructured, refused error) (Result, error) {
	if precious(live) || object.OutlivesOwner(planned) {
		return Result{}, fmt.Errorf("update %s: it cannot be changed in place, and is not deleted, because the operator cannot create its content again: take "+
			"back the change of the resource that owns it; or save the content of the object, delete the object and create it again: %w", describe(live), refused)
	}
	propagation := metav1.DeletePropagationBackground
	if live.GetKind() == "StatefulSet" && sameSelector(planned, live) {
		propagation = metav1.DeletePropagationOrphan
	}
	if err := a.delete(ctx, live, propagation); err != nil {
		return Result{}, fmt.Errorf("replace %s: %w", describe(live), err)
	}
	a.contests.replaced.Add(placeOf(planned), nil)
	metrics.Writes.WithLabelValues(live.GetKind(), string(Replaced)).Inc()
	return Result{Action: Replaced}, nil
}

// errAddress is the reason for replacing a Service.
var errAddress = errors.New("the address of a Service cannot be changed")

// precious reports whether an object has contents that the operator could not create again: data, or passwords that it
// may have generated. Resources of the operator's kinds count, too, because their data may be deleted with them.
func precious(live *unstructured.Unstructured) bool {
	return live.GroupVersionKind() == object.ClaimKind || live.GetKind() == "Secret" || object.IsResource(live) || object.OutlivesOwner(live)
}

// Delete deletes exactly this object, and not a later object of the same name.
func (a *Applier) Delete(ctx context.Context, live *unstructured.Unstructured) error {
	if err := a.delete(ctx, live, metav1.DeletePropagationBackground); err != nil {
		return fmt.Errorf("delete %s: %w", describe(live), err)
	}
	metrics.Writes.WithLabelValues(live.GetKind(), string(Deleted)).Inc()
	return nil
}

func (a *Applier) delete(ctx context.Context, live *unstructured.Unstructured, propagation metav1.DeletionPropagation) error {
	uid := live.GetUID()
	return client.IgnoreNotFound(a.client.Delete(ctx, live.DeepCopy(),
		client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation)))
}

// immutable reports whether the API server refused a change because the field cannot change, and not because of an invalid value.
func immutable(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !asStatus(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		return false
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return false
	}
	for _, cause := range details.Causes {
		if !immutableCause(details.Kind, cause) {
			return false
		}
	}
	return true
}

func describe(obj *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", obj.GetKind(), obj.GetNamespace(), obj.GetName())
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// Kind is one kind of resource. T is its Go type, a pointer. O is its observation: the facts and decisions of one
// reconciliation about the running system.
//
// In every reconciliation, the controller calls Plan, applies the plan, and then calls Observe, Decide and Status, in
// that order. Plan, Observe and Decide store in the observation what the later calls need. Only the first step of a
// decision is taken. The next reconciliation begins with an empty observation. So an operator that starts after a crash
// needs nothing from the memory of the crashed operator.
type Kind[T client.Object, O any] interface {
	// GVK is the kind's group, version and kind.
	GVK() schema.GroupVersionKind
	// New returns an empty resource, for a read. Its Go type has a field Status and is in the operator's scheme.
	New() T

	// Paused reports whether a resource requests that nothing is changed.
	Paused(resource T) bool

	// Plan returns the objects of a resource. It reads only from in, and changes nothing. An error that only a change of the resource can
	// fix is a *SpecError.
	Plan(resource T, in Inputs, obs *O) (*Plan, error)

	// Observe reads the running system until the deadline of ctx, and changes nothing. Unreachable servers are part of the observation. An
	// error means that no observation was possible.
	Observe(ctx context.Context, resource T, seen PlanSeen, pods Pods, obs *O) error

	// Decide returns the next steps for the resource and the observation. Its result depends only on the arguments. Every observation has a decision,
	// even if the decision is to wait for a user. The controller also calls Decide for a paused resource, drops the steps and keeps the notes.
	Decide(resource T, seen PlanSeen, obs *O) Decision

	// Status writes the observation into the resource's status. The result depends only on the arguments. If nothing visible to a user
	// has changed, the status stays equal, including times.
	Status(resource T, seen Seen[O], now metav1.Time)

	// Summary returns the summary of a resource's status, for events and metrics.
	Summary(resource T) Summary

	// Forget drops cached data of a deleted resource.
	Forget(namespace, name string)
}

// Watcher is a kind with watches other than its own resources, their objects and pods.
type Watcher interface {
	// Watch adds watches to the kind's controller.
	Watch(b *builder.Builder)
}

// Parent is a kind with resources that may own resources of other kinds.
type Parent interface {
	// Children returns the kinds of the owned resources, from object.Optional.
	Children() []schema.GroupVersionKind
}

// Historian is a kind that keeps previous specs of its resources.
type Historian[T client.Object] interface {
	// Revision returns the revision to store for a resource with an accepted spec, and the last generation that was
	// ready. The revision is nil if nothing must be stored: that spec is stored already, or the history begins with the
	// next change of the spec.
	Revision(resource T) (revision *appsv1.ControllerRevision, ready int64, err error)
}

// Maintainer is a kind whose running servers are observed and repaired while their spec is refused.
type Maintainer[T client.Object, O any] interface {
	// Maintain adds the refusal of a spec to the observation. No object of the plan was written. Maintain reports whether servers run. If
	// so, Observe and Decide maintain these servers. Otherwise the pass ends with the refusal.
	Maintain(resource T, in Inputs, refusal *SpecError, obs *O) (bool, error)
}

// Paced is a kind whose resources take turns when a new version of the operator plans other objects for an unchanged
// spec.
type Paced[T client.Object] interface {
	// IsChangedByOperator reports whether a plan changes running pods although the spec was already applied.
	IsChangedByOperator(resource T, plan *Plan) bool
	// Turn returns the state of a resource in the rollout queue, from its status.
	Turn(resource T) Member
}

// Pace is the result of a request for a turn. Kind.Status writes a granted turn to the resource's status. The rollout begins only when the
// status shows the turn.
type Pace struct {
	Granted         bool
	Reason, Message string // why the resource waits
}

// Inputs are the inputs of a plan other than the resource.
type Inputs struct {
	// Lookup returns the resource's object of a kind in object.Kinds or object.Resources by its name, or nil. Retained objects are included.
	// The error is an apply.NotServedError if the API server does not serve the kind.
	Lookup func(kind, name string) (*unstructured.Unstructured, error)
	// LookupAny returns an object of a kind in object.Kinds by its name from the cache, regardless of its owner, or nil.
	LookupAny func(kind, name string) (*unstructured.Unstructured, error)
	// LookupLive reads an object by its name from the API server, regardless of its owner, or returns nil. It also finds objects that lost
	// their labels, and costs a request.
	LookupLive func(kind, name string) (*unstructured.Unstructured, error)
	// List lists the resource's objects of a kind in object.Kinds or object.Resources. Retained objects are included.
	List func(kind string) ([]*unstructured.Unstructured, error)
	// Pods lists the pods of a part.
	Pods func(part string) ([]*corev1.Pod, error)
	// PodsOf lists the pods of a part of another resource, for example of a resource that the resource owns.
	PodsOf func(owner object.Owner, part string) ([]*corev1.Pod, error)
	// PodsLive lists the pods of a part from the API server. It costs a request.
	PodsLive func(part string) ([]*corev1.Pod, error)
	// Generation reads the generation of the resource's spec from the API server. It returns 0 if the resource is deleted or being deleted.
	// It costs a request.
	Generation func() (int64, error)
}

// Decision is the result of Decide.
type Decision struct {
	// Steps are in order. The controller takes the first step. The others show the next steps to users.
	Steps []Step
	// LookAgain is the time until the next observation without an API event: one or two seconds while a step waits for the running system,
	// longer otherwise. 0 means never.
	LookAgain time.Duration
	// Notes are steps that write facts which the operator must remember; they change nothing for users. In each
	// reconciliation, the first note is written, even if the first of Steps fails or the resource is paused.
	Notes []Step
	// NoteAgain replaces LookAgain if the resource is paused.
	NoteAgain time.Duration
}

// Seen holds everything that one reconciliation found about a resource.
type Seen[O any] struct {
	PlanSeen

	Generation int64
	Paused     bool
	Deleting   bool
	Pace       *Pace    // the result of the request for a turn; nil if none was needed
	Kept       bool     // this reconciliation has added the spec of this generation to the history
	Observed   *O       // nil if this reconciliation observed nothing
	Decision   Decision // decision about the observation
	Failure    *Failure // reason why the resource cannot be reconciled; nil if it can
}

// Failure explains why a resource cannot be reconciled.
type Failure struct {
	Reason  string // reason of a condition
	Message string
	Part    string // the part that failed; "" if the failure is about no single part
	// Stalled reports whether only an external change helps. Otherwise the operator keeps trying.
	Stalled bool
}

// Summary is a kind-independent form of a resource's status.
type Summary struct {
	Phase      string
	Generation int64  // the observed generation
	Ready      bool   // the condition Ready
	ReadyText  string // message of the event when it becomes ready, such as: all components are ready (12/12)
	// New reports whether the resource has never been ready.
	New bool
	// Problem holds the message and the reason of the condition Degraded, and the status field with details, such as
	// status.components[auth]. Empty without a problem.
	Problem, ProblemReason, ProblemField string
	// Urgent reports whether a change to this status is written immediately, even if the last write was a short time ago.
	Urgent bool
	// Doing is the running step. An event reports each change of it. Empty if there is none.
	Doing Doing
	// Conditions are the conditions of the status.
	Conditions []metav1.Condition
	// Parts are the parts of the status.
	Parts []metrics.Part
	// Members is the number of servers in each state; nil if the status has no such number.
	Members map[string]int
	// Backups holds the state of backups from the status; nil if none are declared.
	Backups *metrics.Backups
	// Claims are the names of the claims that hold the data; nil if they are not reported.
	Claims []string
	// Warnings are facts about something that succeeded. An event reports each warning once.
	Warnings []Warning
}

// Warning consists of a reason, a text, and the status field with details.
type Warning struct{ Reason, Text, Field string }

// Doing holds the name and the message of a running step.
type Doing struct{ Step, Text string }

// SpecError is an error in a resource that only a change of the resource can fix.
type SpecError struct {
	Reason string // ReasonInvalidSpec or ReasonRenderFailed
	Err    error
}

func (e *SpecError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SpecError) Unwrap() error { return e.Err }

// SpecErrorOf wraps an error that only a change of the spec can fix. Its reason depends on whether the error names a field.
func SpecErrorOf(err error) error {
	var field *render.Error
	if errors.As(err, &field) {
		return &SpecError{Reason: ReasonInvalidSpec, Err: err}
	}
	return &SpecError{Reason: ReasonRenderFailed, Err: err}
}

// Reasons of failures of all kinds. They are part of the API: conditions contain them.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonRenderFailed      = "RenderFailed"
	ReasonCredentialsFailed = "CredentialsFailed"
	ReasonApplyFailed       = "ApplyFailed"
	ReasonPruneFailed       = "PruneFailed"
	ReasonObjectConflict    = "ObjectConflict"
	ReasonNotAdopted        = "NotAdopted"
	ReasonNewerOperator     = "NewerOperator"
	ReasonContested         = "Contested"
	ReasonObserveFailed     = "ObserveFailed"
	ReasonStepFailed        = "StepFailed"
)

// OwnerOf returns a resource as an object.Owner.
func OwnerOf[T client.Object, O any](kind Kind[T, O], resource T) object.Owner {
	return object.Owner{
		GroupVersionKind: kind.GVK(), Namespace: resource.GetNamespace(), Name: resource.GetName(), UID: resource.GetUID(),
	}
}

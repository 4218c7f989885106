// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds is the contract between a kind of resource and the controller
// that carries it out. Each kind is a folder below this one: what it plans,
// what it observes of the running system, what it decides to do about that,
// and what it reports.
package kinds

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/fleet"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// Kind is one kind of resource. T is its Go type, a pointer; W is what Observe returns: plain data
// about the running system, with no connection in it.
//
// The controller calls Plan, carries the plan out, and then calls Observe, Decide and Status, in that
// order, in every pass. Only the first step of a decision is taken; then the pass ends and the next
// one looks again. So a crash at any point means that the next operator looks again, too.
type Kind[T client.Object, W any] interface {
	// GVK is the kind's group, version and kind.
	GVK() schema.GroupVersionKind
	// New returns an empty resource, to read into. Its Go type has a field Status, and the operator's
	// scheme knows it.
	New() T

	// Paused reports whether a resource asks for nothing to be changed.
	Paused(resource T) bool

	// Plan returns what a resource stands for. It reads nothing but what in gives it, and changes
	// nothing. An error that only a change of the resource can mend is a *Mistake.
	Plan(resource T, in Inputs) (*engine.Plan, error)

	// Observe reads the running system, within the time of ctx, and changes nothing. What cannot be
	// reached is part of what is observed; an error means that nothing could be said at all.
	Observe(ctx context.Context, resource T, seen engine.Seen, pods Pods) (W, error)

	// Decide says what to do next, from what the resource wants and what was seen. It is pure and
	// total: it has an answer for every observation, if only to wait or to say that a person must act.
	Decide(resource T, seen engine.Seen, observed W) Decision

	// Status writes what was seen into the resource's status. It is pure. When nothing that a user
	// can see has changed, the status stays equal, times included.
	Status(resource T, seen Seen[W], now metav1.Time)

	// Summary says what a resource's status amounts to, for events and metrics.
	Summary(resource T) Summary

	// Forget drops what is remembered of a resource that is gone.
	Forget(namespace, name string)
}

// Watcher is a kind that is triggered by more than its own resources, their objects and pods.
type Watcher interface {
	// Watch adds watches to the kind's controller.
	Watch(b *builder.Builder)
}

// Parent is a kind whose resources may have resources of other kinds as their objects.
type Parent interface {
	// Children are these kinds, of object.Resources.
	Children() []schema.GroupVersionKind
}

// Historian is a kind that keeps the specs that its resources had.
type Historian[T client.Object] interface {
	// Revision returns what is to be kept of a resource whose spec was accepted, and which generation was
	// ready last; nil when its history has that spec already, or begins with the next change.
	Revision(resource T) (revision *appsv1.ControllerRevision, ready int64, err error)
}

// Paced is a kind whose resources take turns when the operator changes them on its own account: when a new version of it
// plans other objects for a spec that did not change.
type Paced[T client.Object] interface {
	// IsChangedByOperator reports whether a plan changes what runs though the spec was carried out as it is.
	IsChangedByOperator(resource T, plan *engine.Plan) bool
	// Turn says where a resource stands, as its status tells.
	Turn(resource T) fleet.Member
}

// Pace is what became of the question for a turn. Only Status may write it down: a turn counts when the status has it.
type Pace struct {
	Granted         bool
	Reason, Message string // why it waits
}

// Inputs are what a plan may depend on besides the resource.
type Inputs struct {
	// Lookup returns the resource's object of that name, of one of object.Kinds, retained ones included,
	// or nil.
	Lookup func(kind, name string) (*unstructured.Unstructured, error)
	// LookupLive asks the API server for the object of that name, whoever's it is: nil means that there is
	// none, while Lookup does not see what lost its labels. It costs a request.
	LookupLive func(kind, name string) (*unstructured.Unstructured, error)
	// List lists the resource's objects of one of object.Kinds, retained ones included.
	List func(kind string) ([]*unstructured.Unstructured, error)
	// Pods lists the pods of a part.
	Pods func(part string) ([]*corev1.Pod, error)
	// PodsLive asks the API server for them. It costs a request.
	PodsLive func(part string) ([]*corev1.Pod, error)
	// Generation asks the API server for the generation of the resource's spec: 0 when the resource is gone, or being
	// deleted. It costs a request.
	Generation func() (int64, error)
}

// Pods are the pods of a resource, as the cache shows them: without their annotations, but for
// object.AnnotationTicket, and of their specs with nothing but the node's name.
type Pods = day2.Pods

// Decision is what a kind wants to be done.
type Decision struct {
	// Steps in their order. The controller takes the first one; the others tell people what follows.
	Steps []day2.Step
	// LookAgain is when to observe again though nothing happened at the API server: a second or two
	// while a step waits for the running system, longer at rest. 0 is never.
	LookAgain time.Duration
}

// Seen is everything that was seen of a resource in one pass.
type Seen[W any] struct {
	engine.Seen

	Generation int64
	Paused     bool
	Deleting   bool
	Pace       *Pace    // whether the operator's change waits; nil when there is none to be asked about
	Kept       bool     // the spec of this generation was added to the history in this pass
	Observed   *W       // nil when nothing was observed in this pass
	Decision   Decision // what was decided from it
	Failure    *Failure // why the resource cannot be carried out; nil if it can
}

// Failure is why a resource cannot be carried out.
type Failure struct {
	Reason  string // of a condition
	Message string
	// Stalled reports whether only a change from outside helps; else the operator keeps trying.
	Stalled bool
}

// Summary is what a resource's status amounts to.
type Summary struct {
	Phase      string
	Generation int64  // the observed one
	Ready      bool   // the condition Ready
	ReadyText  string // what people are told when it becomes ready, such as: all components are ready (12/12)
	// New reports whether the resource has never been ready.
	New bool
	// Problem is what a person should hear of: the reason and message of the condition Degraded, and
	// the field of the status that says more, such as status.components[auth]. Empty while there is none.
	Problem, ProblemReason, ProblemField string
	// Urgent reports whether a change to this status is written at once, and not with the next one.
	Urgent bool
	// Doing is what is being done to the running system. An event tells of it when it changes. Empty while
	// nothing is.
	Doing Doing
	// Conditions are those of the status.
	Conditions []metav1.Condition
	// Parts are the parts of the status.
	Parts []metrics.Part
	// Members is how many servers are in each state; nil where the status does not tell.
	Members map[string]int
	// Backups is what the status says of backups; nil where none are declared.
	Backups *metrics.Backups
	// Claims are those whose volumes have the data, by name; nil where that is not told.
	Claims []string
}

// Doing is a step that is being taken: its name, and what it does to what.
type Doing struct{ Step, Text string }

// Mistake is an error in a resource that only a change of the resource can mend.
type Mistake struct {
	Reason string // ReasonInvalidSpec or ReasonRenderFailed
	Err    error
}

func (e *Mistake) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Mistake) Unwrap() error { return e.Err }

// The reasons of failures that every kind may have. They are part of the API: conditions carry them.
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

// OwnerOf returns a resource as the owner of objects.
func OwnerOf[T client.Object, W any](kind Kind[T, W], resource T) object.Owner {
	return object.Owner{
		GroupVersionKind: kind.GVK(), Namespace: resource.GetNamespace(), Name: resource.GetName(), UID: resource.GetUID(),
	}
}

// Nothing is the observation of a kind without day-2 logic; see Static.
type Nothing struct{}

// Static is the Observe and Decide of a kind that only has objects.
type Static[T client.Object] struct{}

// Observe observes nothing.
func (Static[T]) Observe(context.Context, T, engine.Seen, Pods) (Nothing, error) {
	return Nothing{}, nil
}

// Decide decides nothing.
func (Static[T]) Decide(T, engine.Seen, Nothing) Decision { return Decision{} }

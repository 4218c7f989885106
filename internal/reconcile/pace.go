// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// askAgain is the interval at which a resource without an event checks whether its turn has come.
const askAgain = 5 * time.Minute

// pace reports whether a change that the operator itself causes must wait for its turn. The change also waits after the turn was granted,
// until the status shows the turn: an operator that replaces this operator must see the turn.
func (r *Reconciler[T, O]) pace(ctx context.Context, resource T, plan *Plan) (*Pace, error) {
	paced, ok := any(r.kind).(Paced[T])
	if !ok || r.gate == nil || r.kind.Paused(resource) {
		return nil, nil
	}
	key := client.ObjectKeyFromObject(resource)
	if paced.Turn(resource).HasTurn || !paced.IsChangedByOperator(resource, plan) {
		r.gate.Forget(key)
		return nil, nil
	}
	wait, err := r.gate.Ask(key, func() ([]Member, error) { return r.members(ctx, paced) })
	if err != nil {
		return nil, err
	}
	if wait == nil {
		return &Pace{Granted: true}, nil
	}
	return &Pace{Reason: wait.Reason, Message: wait.Message(r.gate.Limit)}, nil
}

// members returns all resources of the kind from the cache. The cache may not show the turns that this operator wrote last, but the gate
// stores them.
func (r *Reconciler[T, O]) members(ctx context.Context, paced Paced[T]) (all []Member, err error) {
	err = EachListed(ctx, r.client, r.client.Scheme(), r.kind.GVK(), func(resource T) { all = append(all, paced.Turn(resource)) },
		client.DisableReadYourWritesConsistency)
	return all, err
}

// EachListed calls do with each resource of a kind in a cache. The resources are not copied.
func EachListed[T client.Object](ctx context.Context, reader client.Reader, scheme *runtime.Scheme, gvk schema.GroupVersionKind, do func(T),
	options ...client.ListOption) error {
	object, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	list, ok := object.(client.ObjectList)
	if !ok {
		return fmt.Errorf("list %s: %T is no list", gvk.Kind, object)
	}
	if err := reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		resource, ok := item.(T)
		if !ok {
			return fmt.Errorf("list %s: an item is a %T", gvk.Kind, item)
		}
		do(resource)
		return nil
	})
}

// watchTurns triggers a reconciliation of each waiting resource when the turn of another resource has ended, or when
// the other resource is healthy again.
func (r *Reconciler[T, O]) watchTurns(b *builder.Builder) {
	paced, ok := any(r.kind).(Paced[T])
	if !ok || r.gate == nil {
		return
	}
	blocks := func(object client.Object) bool {
		resource, ok := object.(T)
		return ok && paced.Turn(resource).HasTurn
	}
	freed := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(e event.DeleteEvent) bool { return blocks(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(T)
			after, ok2 := e.ObjectNew.(T)
			return ok1 && ok2 && paced.Turn(before).HasTurn && paced.Turn(before) != paced.Turn(after)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	next := func(context.Context, client.Object) (requests []ctrl.Request) {
		for _, key := range r.gate.Next() {
			requests = append(requests, ctrl.Request{NamespacedName: key})
		}
		return requests
	}
	b.Watches(r.kind.New(), handler.EnqueueRequestsFromMapFunc(next), builder.WithPredicates(freed))
}

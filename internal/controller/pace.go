// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/fleet"
	"d3os.com/d3os-operator/internal/kinds"
)

// askAgain is how often a resource asks for its turn that no event has told of one.
const askAgain = 5 * time.Minute

// pace says whether a resource that the operator changes on its own account has to wait for its turn. One that gets it
// waits once more, until its status says so: then the next operator knows it, too, if this one ends.
func (r *Reconciler[T, W]) pace(ctx context.Context, resource T, plan *engine.Plan) (*kinds.Pace, error) {
	paced, ok := any(r.kind).(kinds.Paced[T])
	if !ok || r.gate == nil || r.kind.Paused(resource) {
		return nil, nil
	}
	key := client.ObjectKeyFromObject(resource)
	if paced.Turn(resource).HasTurn || !paced.IsChangedByOperator(resource, plan) {
		r.gate.Forget(key)
		return nil, nil
	}
	wait, err := r.gate.Ask(key, func() ([]fleet.Member, error) { return r.members(ctx, paced) })
	if err != nil {
		return nil, err
	}
	if wait == nil {
		return &kinds.Pace{Granted: true}, nil
	}
	return &kinds.Pace{Reason: wait.Reason, Message: wait.Message(r.gate.Limit)}, nil
}

// members are all resources of the kind, as the cache has them: what it does not show of this operator's own writes, the gate
// knows.
func (r *Reconciler[T, W]) members(ctx context.Context, paced kinds.Paced[T]) (all []fleet.Member, err error) {
	gvk := r.kind.GVK()
	object, err := r.client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	list, ok := object.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("list %s: %T is no list", gvk.Kind, object)
	}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		resource, ok := item.(T)
		if !ok {
			return fmt.Errorf("list %s: an item is a %T", gvk.Kind, item)
		}
		all = append(all, paced.Turn(resource))
		return nil
	})
	return all, err
}

// watchTurns has those that wait ask again when another's turn is over, or when that is well again.
func (r *Reconciler[T, W]) watchTurns(b *builder.Builder) {
	paced, ok := any(r.kind).(kinds.Paced[T])
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
	next := func(context.Context, client.Object) (requests []reconcile.Request) {
		for _, key := range r.gate.Next() {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
	b.Watches(r.kind.New(), handler.EnqueueRequestsFromMapFunc(next), builder.WithPredicates(freed))
}

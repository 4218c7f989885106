// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// Lookup returns the owner's object of a kind in object.Kinds or object.Resources by its name from the cache, or nil. Retained objects are included.
func (e *Engine) Lookup(ctx context.Context, owner object.Owner, kind, name string) (*unstructured.Unstructured, error) {
	live, err := e.LookupAny(ctx, owner, kind, name)
	if live == nil || err != nil || !owner.Names(live) {
		return nil, err
	}
	return live, nil
}

// LookupAny returns an object of a kind in object.Kinds by its name from the cache, regardless of its owner, or nil.
func (e *Engine) LookupAny(ctx context.Context, owner object.Owner, kind, name string) (*unstructured.Unstructured, error) {
	wanted, err := named(owner, kind, name)
	if err != nil {
		return nil, err
	}
	return e.applier.Get(ctx, wanted)
}

// LookupLive reads the object with that name from the API server, regardless of its owner. It returns nil if there is none.
func (e *Engine) LookupLive(ctx context.Context, owner object.Owner, kind, name string) (*unstructured.Unstructured, error) {
	wanted, err := named(owner, kind, name)
	if err != nil {
		return nil, err
	}
	return e.applier.GetLive(ctx, wanted)
}

// Generation reads the generation of the owner's spec from the API server: 0 if the owner was deleted, or is being deleted.
func (e *Engine) Generation(ctx context.Context, owner object.Owner) (int64, error) {
	return e.applier.OwnerGeneration(ctx, owner)
}

// List lists the owner's objects of a kind in object.Kinds or object.Resources, from the cache. Retained objects are included. The list
// is empty for a kind that the cache does not watch yet.
func (e *Engine) List(ctx context.Context, owner object.Owner, kind string) ([]*unstructured.Unstructured, error) {
	if i := slices.IndexFunc(object.Resources, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind }); i >= 0 {
		return e.applier.Controlled(ctx, owner, object.Resources[i])
	}
	wanted, err := named(owner, kind, "")
	if err != nil {
		return nil, err
	}
	list := object.EmptyList(wanted.GroupVersionKind())
	if err := e.client.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}); err != nil {
		return nil, fmt.Errorf("list %s of %s/%s: %w", kind, owner.Namespace, owner.Name, err)
	}
	var found []*unstructured.Unstructured
	for i := range list.Items {
		if owner.Owns(&list.Items[i]) {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

func named(owner object.Owner, kind, name string) (*unstructured.Unstructured, error) {
	kinds := slices.Concat(object.Kinds, object.Resources)
	i := slices.IndexFunc(kinds, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("look up %s %s: the operator creates no object of this kind", kind, name)
	}
	wanted := object.Empty(kinds[i])
	wanted.SetName(name)
	wanted.SetNamespace(owner.Namespace)
	return wanted, nil
}

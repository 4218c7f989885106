// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

// ErrOwnerGone says that the owner was deleted, which the cache does not show yet. Its objects are
// the garbage collector's.
var ErrOwnerGone = errors.New("the resource is gone")

// checkOwner returns ErrOwnerGone when an object of a part that was applied is missing because its
// owner is gone: the garbage collector deletes objects before each cache has heard of the owner's end.
// Without this they would be made again, for the garbage collector to delete again. Only then is the
// API server asked.
func (p *pass) checkOwner(ctx context.Context) error {
	lacks, err := p.lacksSomething(ctx)
	if err != nil || !lacks {
		return err
	}
	lives, err := p.applier.OwnerLives(ctx, p.owner)
	if err == nil && !lives {
		err = ErrOwnerGone
	}
	return err
}

// lacksSomething reports whether an object is missing that was there.
func (p *pass) lacksSomething(ctx context.Context) (bool, error) {
	owned, applied := map[object.ID]bool{}, []*unstructured.Unstructured(nil)
	for _, o := range p.owned {
		owned[object.IDOf(o)] = true
	}
	for i := range p.plan.Parts {
		if part := &p.plan.Parts[i]; p.wasReady || part.Known != "" && part.Known == part.Revision {
			applied = append(applied, part.Objects...)
		}
	}
	if len(applied) > 0 { // Secrets come before any part
		applied = append(applied, p.plan.Secrets...)
	}
	for _, o := range applied {
		// A disruption budget comes and goes with the number of pods, of which the revision says nothing.
		if owned[object.IDOf(o)] || object.OutlivesOwner(o) || o.GetKind() == "PodDisruptionBudget" {
			continue
		}
		live, err := p.applier.Get(ctx, o) // which sees what was written a moment ago
		var notServed *apply.NotServedError
		if errors.As(err, &notServed) {
			continue
		}
		if live == nil || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

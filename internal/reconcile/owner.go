// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

// ErrOwnerGone reports that the owner was deleted, although the cache still shows the owner. The garbage collector deletes the owner's
// objects.
var ErrOwnerGone = errors.New("the resource was deleted")

// checkOwner returns ErrOwnerGone if the owner was deleted. The garbage collector may delete the owner's objects before
// the operator's cache shows that the owner was deleted. Without this check, the operator would create these objects
// again.
//
// checkOwner queries the API server only if an object of an applied part is missing. If the owner exists at the time of
// the query, it also existed when the object was deleted.
func (p *pass) checkOwner(ctx context.Context) error {
	var err error
	if p.missing, err = p.allMissing(ctx); err != nil || len(p.missing) == 0 {
		return err
	}
	return p.ownerLives(ctx)
}

// checkOwnerOf queries the owner again directly before an object or a Secret of an applied part is created. It does so
// only if the object existed at the start of Apply and is missing now (live is nil).
func (p *pass) checkOwnerOf(ctx context.Context, parts []Part, planned, live []*unstructured.Unstructured) error {
	if !slices.ContainsFunc(parts, p.wasApplied) {
		return nil
	}
	for i, o := range planned {
		if live[i] == nil && goesWithOwner(o) && !p.missing[object.IDOf(o)] {
			return p.ownerLives(ctx)
		}
	}
	return nil
}

func (p *pass) ownerLives(ctx context.Context) error {
	generation, err := p.applier.OwnerGeneration(ctx, p.owner)
	if err == nil && generation == 0 {
		err = ErrOwnerGone
	}
	return err
}

// wasApplied reports whether all objects of a part existed after an earlier reconciliation.
func (p *pass) wasApplied(part Part) bool {
	return p.wasReady || part.Known != "" && part.Known == part.Revision
}

// goesWithOwner reports whether an existing object can only disappear together with its owner. A disruption budget may
// be deleted earlier: it depends on the number of pods, which is not part of the revision.
func goesWithOwner(o *unstructured.Unstructured) bool {
	return !object.OutlivesOwner(o) && o.GetKind() != "PodDisruptionBudget"
}

// allMissing returns the missing objects of those parts that were applied before.
func (p *pass) allMissing(ctx context.Context) (map[object.ID]bool, error) {
	owned, applied := map[object.ID]bool{}, []*unstructured.Unstructured(nil)
	for _, o := range p.owned {
		owned[object.IDOf(o)] = true
	}
	for _, part := range p.plan.Parts {
		if p.wasApplied(part) {
			applied = append(applied, part.Objects...)
		}
	}
	if len(applied) > 0 { // the Secrets were applied before the parts
		applied = append(applied, p.plan.Secrets...)
	}
	missing := map[object.ID]bool{}
	for _, o := range applied {
		if owned[object.IDOf(o)] || !goesWithOwner(o) {
			continue
		}
		live, err := p.applier.Get(ctx, o) // Get shows the last writes of the operator
		var notServed *apply.NotServedError
		if errors.As(err, &notServed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if live == nil {
			missing[object.IDOf(o)] = true
		}
	}
	return missing, nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"

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
// API server asked. It has to be asked after the object was seen to be missing: an owner that lives then
// did so when the object was deleted.
func (p *pass) checkOwner(ctx context.Context) error {
	var err error
	if p.missing, err = p.allMissing(ctx); err != nil || len(p.missing) == 0 {
		return err
	}
	return p.ownerLives(ctx)
}

// checkOwnerOf is checkOwner for objects of parts that were applied, or Secrets of theirs, which were still there when that
// looked, and are missing now (live is nil), shortly before they would be made again.
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

// wasApplied reports whether all objects of a part existed.
func (p *pass) wasApplied(part Part) bool {
	return p.wasReady || part.Known != "" && part.Known == part.Revision
}

// goesWithOwner reports whether an object that existed is there as long as its owner is. A disruption budget comes and
// goes with the number of pods, of which the revision says nothing.
func goesWithOwner(o *unstructured.Unstructured) bool {
	return !object.OutlivesOwner(o) && o.GetKind() != "PodDisruptionBudget"
}

// allMissing returns the objects that were there and are missing.
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
	if len(applied) > 0 { // Secrets come before any part
		applied = append(applied, p.plan.Secrets...)
	}
	missing := map[object.ID]bool{}
	for _, o := range applied {
		if owned[object.IDOf(o)] || !goesWithOwner(o) {
			continue
		}
		live, err := p.applier.Get(ctx, o) // which sees what was written a moment ago
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

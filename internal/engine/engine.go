// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

// partsAtOnce bounds the parts of one wave that are applied concurrently.
const partsAtOnce = 4

// Engine carries out plans. It is safe for concurrent use with different owners.
type Engine struct {
	client  client.Client
	applier *apply.Applier
}

// New returns an Engine. The client must be cached with read-your-writes consistency for every
// kind in object.Kinds and for pods, with the indexes of package kube.
func New(c client.Client, applier *apply.Applier) *Engine {
	return &Engine{client: c, applier: applier}
}

// Owned lists what an owner has, from the cache. It is to be called before the plan is made: what
// appears later is not removed by a plan that does not know of it. The error is an
// *apply.NewerError when a newer operator wrote some of it.
func (e *Engine) Owned(ctx context.Context, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return e.applier.Owned(ctx, owner)
}

// Order is a plan to carry out.
type Order struct {
	Owner object.Owner
	Plan  *Plan
	// Owned is what Engine.Owned returned before the plan was made.
	Owned []*unstructured.Unstructured
	// Paused: everything is looked at, nothing is written.
	Paused bool
	// Hold: no part gets a new revision. What runs is healed as it is.
	Hold bool
	// WasReady: the owner was ready in this generation when it was looked at last. So all of its objects existed.
	WasReady bool
}

// Carry makes the cluster follow a plan as far as that may be done now. Nothing in it waits: what
// may be applied is applied, what is waited for is in the result, and a watch brings the next pass.
// The errors are *RefusedError,
// *SecretError, *PruneError, ErrPlanAgain, ErrOwnerGone, and those of apply; with an error, the result holds what
// was seen until then.
func (e *Engine) Carry(ctx context.Context, order Order, teller Teller) (Seen, error) {
	p := &pass{Engine: e, owner: order.Owner, plan: order.Plan, owned: order.Owned, hold: order.Hold, wasReady: order.WasReady, teller: teller}
	if order.Paused {
		return p.lookOnly(ctx)
	}
	p.moving = p.portsMove()
	if err := p.checkOwner(ctx); err != nil {
		return Seen{}, err
	}
	if err := p.applier.CheckAdopted(ctx, p.owner, p.allPlanned()); err != nil {
		return Seen{}, err
	}
	if err := p.dryRun(ctx); err != nil {
		p.healOnly = true
		_, _ = p.applyParts(ctx) // the mistake in the spec is what a person has to know of
		return Seen{}, err
	}
	for _, secret := range p.plan.Secrets {
		if err := p.applySecret(ctx, secret); err != nil {
			if errors.Is(err, ErrPlanAgain) || errors.Is(err, ErrOwnerGone) {
				return Seen{}, err
			}
			return Seen{}, &SecretError{Err: err}
		}
	}
	for _, record := range p.plan.Records {
		if err := p.applyRecord(ctx, record); err != nil {
			return Seen{}, err
		}
	}
	seen, err := p.applyParts(ctx)
	if pruneErr := p.prune(ctx, &seen); pruneErr != nil && err == nil {
		err = &PruneError{Err: pruneErr}
	}
	return seen, err
}

// pass is one call of Carry.
type pass struct {
	*Engine

	owner  object.Owner
	plan   *Plan
	owned  []*unstructured.Unstructured
	teller Teller
	// healOnly: only what is planned as it was applied before is written.
	healOnly bool
	hold     bool // see Order
	wasReady bool
	missing  map[object.ID]bool // when the pass began
	ready    map[string]bool    // parts of earlier waves
	moving   bool               // see portsMove
	ports    sync.Mutex         // is held where a Service is written while moving
}

// allPlanned returns every object of the plan.
func (p *pass) allPlanned() []*unstructured.Unstructured {
	planned := slices.Clone(p.plan.Secrets)
	for i := range p.plan.Records {
		planned = append(planned, p.plan.Records[i].Object)
	}
	for i := range p.plan.Parts {
		planned = append(planned, p.plan.Parts[i].Objects...)
	}
	return planned
}

// applyParts applies every part that may be applied now, wave by wave, and returns what it saw of
// each, with the first error.
func (p *pass) applyParts(ctx context.Context) (Seen, error) {
	parts := p.plan.Parts
	seen := Seen{Parts: make([]PartSeen, len(parts))}
	failures := make([]error, len(parts))
	ready := map[string]bool{}
	p.ready = ready
	for _, wave := range waves(parts) {
		var group workers.Group
		group.SetLimit(partsAtOnce)
		for _, i := range wave {
			var waitsFor []string
			for _, name := range parts[i].After {
				if !ready[name] {
					waitsFor = append(waitsFor, name)
				}
			}
			group.Go(func() { seen.Parts[i], failures[i] = p.applyPart(ctx, &parts[i], waitsFor) })
		}
		group.Wait()
		for _, i := range wave {
			ready[parts[i].Name] = failures[i] == nil && seen.Parts[i].Applied && seen.Parts[i].Health.Settled
		}
	}
	if i := soonest(failures); i >= 0 {
		return seen, fmt.Errorf("%s: %w", parts[i].Name, failures[i])
	}
	return seen, nil
}

// soonest returns the index of the failure that is to be tried again first, and of the first of several such; -1 without one. A contested object
// waits for minutes, and must not keep the others from their next try. What a newer operator wrote ends all tries.
func soonest(failures []error) int {
	found, least := -1, time.Duration(0)
	for i, err := range failures {
		if err == nil {
			continue
		}
		var contested *apply.ContestedError
		var newer *apply.NewerError
		after := time.Duration(0) // back-off
		switch {
		case errors.As(err, &contested):
			after = contested.RetryAfter
		case errors.As(err, &newer):
			after = -1 // nothing of the owner is written any more
		}
		if found < 0 || after < least {
			found, least = i, after
		}
	}
	return found
}

// waves groups the indexes of parts: each wave depends on earlier ones alone.
func waves(parts []Part) [][]int {
	depth := map[string]int{}
	var result [][]int
	for i := range parts {
		d := 0
		for _, name := range parts[i].After {
			d = max(d, depth[name]+1)
		}
		depth[parts[i].Name] = d
		if d == len(result) {
			result = append(result, nil)
		}
		result[d] = append(result[d], i)
	}
	return result
}

// dryRun asks the API server about what the spec says in Kubernetes' own terms, before anything
// is written.
func (p *pass) dryRun(ctx context.Context) error {
	for i := range p.plan.Parts {
		part := &p.plan.Parts[i]
		if !part.NeedsDryRun {
			continue
		}
		for _, planned := range part.Objects {
			about := "its podTemplate or another field of its pods is refused"
			switch {
			case object.IsResource(planned):
				about = "it is refused as the spec of a " + planned.GetKind()
			case !hasPods(planned):
				continue
			}
			if err := p.applier.Check(ctx, planned); err != nil {
				return &RefusedError{Err: fmt.Errorf("%s: %w (%s)", part.Path, err, about)}
			}
		}
	}
	return nil
}

// hasPods reports whether an object is a workload.
func hasPods(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job":
		return true
	}
	return false
}

// applySecret applies a Secret with credentials. One that came to sight since its values were
// planned, or that the cache of an operator that has just started does not show, keeps its own.
func (p *pass) applySecret(ctx context.Context, planned *unstructured.Unstructured) error {
	live, err := p.Lookup(ctx, p.owner, planned.GetKind(), planned.GetName())
	if err != nil {
		return err
	}
	if err := p.checkOwnerOf(ctx, p.plan.Parts, []*unstructured.Unstructured{planned}, []*unstructured.Unstructured{live}); err != nil {
		return err
	}
	adopt := func(live *unstructured.Unstructured) bool { return p.plan.Adopt != nil && p.plan.Adopt(live) }
	if live != nil && adopt(live) {
		return ErrPlanAgain
	}
	result, err := p.applier.Apply(ctx, p.owner, planned, live)
	var unseen *apply.UnseenError
	if errors.As(err, &unseen) {
		if adopt(unseen.Live) {
			return ErrPlanAgain
		}
		result, err = p.applier.Apply(ctx, p.owner, planned, unseen.Live) // the spec's own values
	}
	if err == nil {
		tellApplied(ctx, p.teller, nil, planned, result.Action)
		tellRewritten(ctx, p.teller, planned, result.Rewrite)
	}
	return err
}

// applyRecord applies a record, but only over what it was planned from.
func (p *pass) applyRecord(ctx context.Context, record Record) error {
	live, err := p.applier.Get(ctx, record.Object)
	if err != nil {
		return err
	}
	if record.MadeFrom != "" && (live == nil || live.GetResourceVersion() != record.MadeFrom) {
		return ErrPlanAgain
	}
	planned := record.Object
	if record.MadeFrom != "" { // the cache that it was judged by may lag
		planned = planned.DeepCopy()
		planned.SetResourceVersion(record.MadeFrom)
	}
	result, err := p.applier.Apply(ctx, p.owner, planned, live)
	if err == nil {
		tellRewritten(ctx, p.teller, planned, result.Rewrite)
	}
	return err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

// partsAtOnce bounds the parts of one wave that are applied concurrently.
const partsAtOnce = 4

// Engine applies plans. It is safe for concurrent use with different owners.
type Engine struct {
	client  client.Client
	applier *apply.Applier
	// obstacles holds the last recorded obstacle to the growth of each volume, by the UID of its claim.
	obstacles *lru.Cache
	// explanations holds the causes that only events show, by the key of the part.
	explanations *lru.Cache
	mayExplain   flowcontrol.RateLimiter
	seesClasses  bool // IngressClasses are watched; see SeeClasses
}

// NewEngine returns an Engine. The client must be cached with read-your-writes consistency for every
// kind in object.Kinds and for pods, with the indexes of package kube.
func NewEngine(c client.Client, applier *apply.Applier) *Engine {
	return &Engine{
		client: c, applier: applier, obstacles: lru.New(4096),
		explanations: lru.New(4096), mayExplain: flowcontrol.NewTokenBucketRateLimiter(explainedPerSecond, explainedAtOnce),
	}
}

// Owned lists an owner's objects, from the cache. Call it before the plan is made, so that the plan does not remove objects that appear
// later. It returns an *apply.NewerError if a newer operator wrote one of the objects.
func (e *Engine) Owned(ctx context.Context, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return e.applier.Owned(ctx, owner)
}

// Request is a request to apply a plan.
type Request struct {
	Owner object.Owner
	Plan  *Plan
	// Owned is the result of Engine.Owned. Call Engine.Owned before the plan is made.
	Owned []*unstructured.Unstructured
	// If Paused is set, Apply only observes the parts (see lookOnly).
	Paused bool
	// If Hold is set, Apply applies no new revision. Running parts are corrected to the revision that was applied last.
	Hold bool
	// WasReady reports that the owner was ready in this generation at its last reconciliation. So all of its objects existed.
	WasReady bool
}

// Apply makes the cluster follow a plan as far as possible now. It does not wait: it applies the parts that may be
// applied, and returns the state of all parts. A watch triggers the next reconciliation.
//
// The errors are *RefusedError, *SecretError, *PruneError, ErrPlanAgain, ErrOwnerGone, and the errors of package apply. With an
// error, the result holds the state of the parts that were read before the error.
func (e *Engine) Apply(ctx context.Context, request Request, recorder Recorder) (PlanSeen, error) {
	p := &pass{Engine: e, owner: request.Owner, plan: e.withoutUnserved(ctx, request.Plan), owned: request.Owned, hold: request.Hold, wasReady: request.WasReady, recorder: recorder}
	if request.Paused {
		return p.lookOnly(ctx)
	}
	p.moving = p.portsMove()
	if err := p.checkOwner(ctx); err != nil {
		return PlanSeen{}, err
	}
	if err := p.applier.CheckAdopted(ctx, p.owner, p.allPlanned()); err != nil {
		return PlanSeen{}, err
	}
	if err := p.dryRun(ctx); err != nil {
		p.healOnly = true
		_, _ = p.applyParts(ctx) // the caller reports the error of the spec, and not this error
		return PlanSeen{}, err
	}
	for _, secret := range p.plan.Secrets {
		if err := p.applySecret(ctx, secret); err != nil {
			if errors.Is(err, ErrPlanAgain) || errors.Is(err, ErrOwnerGone) {
				return PlanSeen{}, err
			}
			return PlanSeen{}, &SecretError{Err: err}
		}
	}
	for _, record := range p.plan.Records {
		if err := p.applyRecord(ctx, record); err != nil {
			return PlanSeen{}, err
		}
	}
	seen, err := p.applyParts(ctx)
	if pruneErr := p.prune(ctx, &seen); pruneErr != nil && err == nil {
		err = &PruneError{Err: pruneErr}
	}
	return seen, err
}

// pass holds the state of one call of Engine.Apply.
type pass struct {
	*Engine

	owner    object.Owner
	plan     *Plan
	owned    []*unstructured.Unstructured
	recorder Recorder
	// If healOnly is set, no new revision is applied. If a part has a new revision, only its edited objects are corrected.
	healOnly bool
	hold     bool // Request.Hold
	wasReady bool
	missing  map[object.ID]bool // objects of applied parts that did not exist at the start of Apply
	ready    map[string]bool    // whether each part of the earlier waves is ready
	moving   bool               // Services exchange node ports; see portsMove
	ports    sync.Mutex         // locked while a Service is written and moving is set
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

// applyParts applies every part that may be applied now, wave by wave. It returns the state of each part, and the first error.
func (p *pass) applyParts(ctx context.Context) (PlanSeen, error) {
	parts := p.plan.Parts
	seen := PlanSeen{Parts: make([]PartSeen, len(parts))}
	failures := make([]error, len(parts))
	p.ready = map[string]bool{}
	for _, wave := range waves(parts) {
		var group workers.Group
		group.SetLimit(partsAtOnce)
		for _, i := range wave {
			var waitsFor []string
			for _, name := range parts[i].After {
				if !p.ready[name] {
					waitsFor = append(waitsFor, name)
				}
			}
			group.Go(func() { seen.Parts[i], failures[i] = p.applyPart(ctx, &parts[i], waitsFor) })
		}
		group.Wait()
		for _, i := range wave {
			p.ready[parts[i].Name] = failures[i] == nil && seen.Parts[i].Applied && seen.Parts[i].Health.Settled
		}
	}
	if i := soonest(failures); i >= 0 {
		return seen, &PartError{Part: parts[i].Name, Err: failures[i]}
	}
	return seen, nil
}

// soonest returns the index of the failure with the earliest retry, or -1 if there is no failure. A contested object
// waits for minutes and must not delay other objects. An object of a newer operator ends all retries.
func soonest(failures []error) int {
	found, least := -1, time.Duration(0)
	for i, err := range failures {
		if err == nil {
			continue
		}
		var contested *apply.ContestedError
		var newer *apply.NewerError
		after := time.Duration(0) // 0: retry with back-off
		switch {
		case errors.As(err, &contested):
			after = contested.RetryAfter
		case errors.As(err, &newer):
			after = -1 // no retry: the operator does not write objects of this owner any more
		}
		if found < 0 || after < least {
			found, least = i, after
		}
	}
	return found
}

// waves groups the indexes of parts: each wave depends only on earlier ones.
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

// dryRun lets the API server validate the plan's Trials, and the parts with NeedsDryRun, before anything is written.
func (p *pass) dryRun(ctx context.Context) error {
	for _, trial := range p.plan.Trials {
		if err := p.applier.Check(ctx, trial.Object); err != nil {
			return &RefusedError{Err: fmt.Errorf("%s: %w (it is refused as the spec of a %s)", trial.Path, err, trial.Object.GetKind())}
		}
	}
	for i := range p.plan.Parts {
		part := &p.plan.Parts[i]
		if !part.NeedsDryRun {
			continue
		}
		hasSet := false
		for _, planned := range part.Objects {
			isSet := planned.GroupVersionKind() == object.StatefulSetKind
			if isSet && hasSet && part.HasEqualSets {
				continue
			}
			hasSet = hasSet || isSet
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

// applySecret applies a Secret with credentials. The API server may have a Secret of this name that the plan does not
// take into account: it was created after the plan was computed, or the cache of a new operator does not show it. If
// Plan.Adopt accepts the values of that Secret, applySecret returns ErrPlanAgain and writes nothing.
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
		result, err = p.applier.Apply(ctx, p.owner, planned, unseen.Live) // apply the values of the spec
	}
	if err == nil {
		recordApplied(ctx, p.recorder, nil, planned, result)
		recordRewritten(ctx, p.recorder, planned, result.Rewrite)
	}
	return err
}

// applyRecord applies a record, but only if the live object still has the version from which the record was planned.
func (p *pass) applyRecord(ctx context.Context, record Record) error {
	live, err := p.applier.Get(ctx, record.Object)
	if err != nil {
		return err
	}
	if record.MadeFrom != "" && (live == nil || live.GetResourceVersion() != record.MadeFrom) {
		return ErrPlanAgain
	}
	planned := record.Object
	if record.MadeFrom != "" { // live may be outdated: with this version, the API server refuses the write if the record has changed
		planned = planned.DeepCopy()
		planned.SetResourceVersion(record.MadeFrom)
	}
	result, err := p.applier.Apply(ctx, p.owner, planned, live)
	if err == nil {
		recordRewritten(ctx, p.recorder, planned, result.Rewrite)
	}
	return err
}

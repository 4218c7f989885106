// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/status"
	"d3os.com/d3os-operator/internal/object"
)

// componentsAtOnce bounds the components of one wave that are applied concurrently.
const componentsAtOnce = 4

// applyComponents applies every component that may be applied now, wave by wave, and returns
// what it saw of each, with the first error.
func (r *Reconciler) applyComponents(ctx context.Context, ds *dsv1.DataService, p *plan.Plan) ([]status.Component, error) {
	seen := make([]status.Component, len(p.Components))
	failures := make([]error, len(p.Components))
	ready := map[dsv1.ComponentName]bool{}
	for _, wave := range waves(p) {
		var group errgroup.Group
		group.SetLimit(componentsAtOnce)
		for _, i := range wave {
			c := &p.Components[i]
			var waitsFor []string
			for _, name := range c.DependsOn {
				if !ready[name] {
					waitsFor = append(waitsFor, string(name))
				}
			}
			group.Go(func() error {
				seen[i], failures[i] = r.applyComponent(ctx, ds, c, waitsFor)
				return nil
			})
		}
		_ = group.Wait() // errors are in failures
		for _, i := range wave {
			ready[p.Components[i].Name] = failures[i] == nil && seen[i].Applied && seen[i].Health.Settled
		}
	}
	for i, err := range failures {
		if err != nil {
			return seen, failure(dsv1.ReasonApplyFailed, fmt.Errorf("%s: %w", p.Components[i].Name, err))
		}
	}
	return seen, nil
}

// preflight asks the API server about what the spec says of pods in Kubernetes' own terms,
// before anything is written.
func (r *Reconciler) preflight(ctx context.Context, p *plan.Plan) error {
	for i := range p.Components {
		c := &p.Components[i]
		if !c.Unchecked {
			continue
		}
		for _, planned := range c.Objects {
			if planned.GetKind() != string(c.Kind) && c.Kind != component.ThirdParty {
				continue
			}
			if err := r.applier.Check(ctx, planned); err != nil {
				return &stepError{reason: dsv1.ReasonInvalidSpec, err: fmt.Errorf("%s: %w", c.Path, err), stalled: true, final: true}
			}
		}
	}
	return nil
}

// waves groups the indexes of components: each wave depends on earlier ones alone.
func waves(p *plan.Plan) [][]int {
	depth := map[dsv1.ComponentName]int{}
	var result [][]int
	for i := range p.Components {
		d := 0
		for _, name := range p.Components[i].DependsOn {
			d = max(d, depth[name]+1)
		}
		depth[p.Components[i].Name] = d
		if d == len(result) {
			result = append(result, nil)
		}
		result[d] = append(result[d], i)
	}
	return result
}

// applyComponent applies one component, or as much of it as may be applied while others are
// not ready: a new revision waits, what already runs is kept as it was.
func (r *Reconciler) applyComponent(ctx context.Context, ds *dsv1.DataService, c *plan.Component, waitsFor []string) (status.Component, error) {
	seen := status.Component{Name: string(c.Name), Kind: string(c.Kind), Revision: c.Revision, Note: note(c)}
	live, err := r.live(ctx, c)
	if err != nil {
		seen.Error = err.Error()
		return seen, err
	}
	seen.Exists = slices.ContainsFunc(live, exists)
	known := knownRevision(ds, c)
	held := len(waitsFor) > 0 && newRevision(c, live, known)
	if held {
		seen.WaitsFor = waitsFor
	}
	settled := true
	for i, planned := range c.Objects {
		if held && !mayHeal(planned, live[i], seen.Exists) {
			continue
		}
		if planned.GetKind() == "StatefulSet" {
			if err := r.applier.GrowVolumes(ctx, plan.OwnerOf(ds), planned); err != nil {
				seen.Error = err.Error()
				return seen, err
			}
		}
		result, err := r.applier.Apply(ctx, plan.OwnerOf(ds), planned, live[i])
		if err != nil {
			seen.Error = err.Error()
			return seen, err
		}
		r.reporter.applied(ctx, ds, c, planned, result, known == c.Revision)
		live[i] = result.Object
		settled = settled && result.Object != nil && result.Action != apply.Waiting
	}
	seen.Applied = !held
	seen.Exists = slices.ContainsFunc(live, exists)
	seen.Health, err = r.health(ctx, ds, c, live)
	seen.Health.Settled = seen.Health.Settled && settled
	return seen, err
}

// look is applyComponents without a write, for a paused DataService.
func (r *Reconciler) look(ctx context.Context, ds *dsv1.DataService, p *plan.Plan) ([]status.Component, error) {
	seen := make([]status.Component, 0, len(p.Components))
	for i := range p.Components {
		c := &p.Components[i]
		live, err := r.live(ctx, c)
		if err != nil {
			return nil, err
		}
		state, err := r.health(ctx, ds, c, live)
		if err != nil {
			return nil, err
		}
		seen = append(seen, status.Component{
			Name: string(c.Name), Kind: string(c.Kind), Revision: c.Revision, Note: note(c), Health: state,
			Exists: slices.ContainsFunc(live, exists), Applied: !newRevision(c, live, knownRevision(ds, c)),
		})
	}
	return seen, nil
}

func (r *Reconciler) live(ctx context.Context, c *plan.Component) ([]*unstructured.Unstructured, error) {
	live := make([]*unstructured.Unstructured, len(c.Objects))
	for i, planned := range c.Objects {
		var err error
		if live[i], err = r.applier.Get(ctx, planned); err != nil {
			return nil, err
		}
	}
	return live, nil
}

func exists(obj *unstructured.Unstructured) bool { return obj != nil }

// knownRevision is the revision of a component that the status says was applied last.
func knownRevision(ds *dsv1.DataService, c *plan.Component) string {
	for _, known := range ds.Status.Components {
		if known.Name == string(c.Name) {
			return known.Revision
		}
	}
	return ""
}

// newRevision tells whether a component's plan has not been applied before. The status knows;
// where it was lost, the digests on the live objects do.
func newRevision(c *plan.Component, live []*unstructured.Unstructured, known string) bool {
	if known != "" {
		return known != c.Revision
	}
	matching := 0
	for i, planned := range c.Objects {
		if live[i] == nil {
			continue
		}
		if object.Digest(live[i]) != object.Digest(planned) {
			return true
		}
		matching++
	}
	return matching == 0
}

// mayHeal tells whether an object of a held-back component may be written: it is missing
// beside others that run, or it was edited without being part of the new revision.
func mayHeal(planned, live *unstructured.Unstructured, running bool) bool {
	if live == nil {
		return running
	}
	return object.Digest(live) == object.Digest(planned)
}

// note is what a person should know of a component even while all is well.
func note(c *plan.Component) string {
	switch {
	case c.Name == component.MySQL && c.Kind == component.DaemonSet:
		return "the data does not outlive the pod: kind DaemonSet has no volume"
	case c.Name == component.Eureka && c.Kind == component.Deployment && ptr.Deref(c.Workload.Replica, 1) > 1:
		return "its replicas do not know one another: they do with kind StatefulSet"
	}
	return ""
}

// applySecret applies a Secret with credentials. One that came to sight since its values were
// planned, or that the cache of an operator that has just started does not show, keeps its own.
func (r *Reconciler) applySecret(ctx context.Context, ds *dsv1.DataService, planned *unstructured.Unstructured) error {
	live, err := r.lookup(ctx, ds)(planned.GetKind(), planned.GetName())
	if err != nil {
		return err
	}
	if r.credentials.Adopt(ds, live) {
		return errAdopted
	}
	result, err := r.applier.Apply(ctx, plan.OwnerOf(ds), planned, live)
	var unseen *apply.UnseenError
	if errors.As(err, &unseen) {
		if r.credentials.Adopt(ds, unseen.Live) {
			return errAdopted
		}
		result, err = r.applier.Apply(ctx, plan.OwnerOf(ds), planned, unseen.Live) // the spec's own values
	}
	if err == nil {
		r.reporter.applied(ctx, ds, nil, planned, result, false)
	}
	return err
}

// prune removes what the DataService controls and no longer plans, dependents first. What a
// held-back or failed component had before stays until its new revision is there.
func (r *Reconciler) prune(ctx context.Context, ds *dsv1.DataService, secrets *credentials.Plan, p *plan.Plan, owned []*unstructured.Unstructured, seen []status.Component) error {
	planned := map[object.ID]bool{}
	for _, secret := range secrets.Secrets {
		planned[object.IDOf(secret)] = true
	}
	position := map[string]int{}
	for i := range p.Components {
		for _, obj := range p.Components[i].Objects {
			planned[object.IDOf(obj)] = true
		}
		position[string(p.Components[i].Name)] = i
	}
	owned = slices.DeleteFunc(owned, func(obj *unstructured.Unstructured) bool {
		i, declared := position[obj.GetLabels()[object.LabelComponent]]
		unfinished := declared && (!seen[i].Applied || seen[i].Error != "")
		return planned[object.IDOf(obj)] || object.Kept(obj) || unfinished || obj.GetDeletionTimestamp() != nil
	})
	slices.SortStableFunc(owned, func(a, b *unstructured.Unstructured) int {
		return component.Position(b.GetLabels()[object.LabelComponent]) - component.Position(a.GetLabels()[object.LabelComponent])
	})
	for _, obj := range owned {
		if err := r.applier.Delete(ctx, obj); err != nil {
			return err
		}
		r.reporter.pruned(ctx, ds, obj)
	}
	return nil
}

// health judges a component; pods are looked at only when something is not settled.
func (r *Reconciler) health(ctx context.Context, ds *dsv1.DataService, c *plan.Component, live []*unstructured.Unstructured) (health.State, error) {
	present := slices.DeleteFunc(slices.Clone(live), func(obj *unstructured.Unstructured) bool { return obj == nil })
	state := health.Of(present, nil)
	state.Settled = state.Settled && len(present) == len(live)
	if state.Settled {
		return state, nil
	}
	pods, err := r.pods(ctx, ds, c)
	if err != nil {
		return state, err
	}
	state = health.Of(present, pods)
	state.Settled = state.Settled && len(present) == len(live)
	return state, nil
}

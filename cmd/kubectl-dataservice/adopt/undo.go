// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// ErrNotBegun reports that the record of the adoption does not exist.
var ErrNotBegun = errors.New("no adoption was started, or it was undone: there is nothing to undo")

// Undo restores the objects and the spec from before the adoption. After an interruption, it can be repeated.
func (a *Adopter) Undo(ctx context.Context) error {
	o, err := a.Observe(ctx)
	if err != nil {
		return err
	}
	if o.Record == nil {
		return ErrNotBegun
	}
	if reasons := refuseUndo(o); len(reasons) > 0 {
		return &RefusedError{Reasons: reasons}
	}
	if at := progressOf(o.DataService); at == copying || at == refused {
		if err := a.giveUp(ctx, o); err != nil {
			return err
		}
		if o, err = a.Observe(ctx); err != nil {
			return err
		}
	}
	if err := a.pause(ctx, o); err != nil {
		return err
	}
	if err := a.unfence(ctx, o); err != nil {
		return err
	}
	for i := len(o.Plan.Parts) - 1; i >= 0; i-- {
		part := &o.Plan.Parts[i]
		if err := a.restorePart(ctx, o, part); err != nil {
			return fmt.Errorf("component %s: %w: run the command again", part.Name, err)
		}
		a.Say("the objects of component " + part.Name + " are restored")
	}
	return a.end(ctx, o)
}

// refuseUndo returns the reasons why an adoption cannot be undone.
func refuseUndo(o *Observation) (reasons []string) {
	switch at := progressOf(o.DataService); {
	case at >= cuttingOver || at == copying && isImported(o.DataService):
		reasons = append(reasons, "the cut-over to database "+newName+" was requested: the services may have written to it, and the original database lacks these writes: continue with --finish")
	case o.isReplaced():
		reasons = append(reasons, "spec.mysql no longer declares the original database: the services may have written to another database")
	}
	known := map[object.ID]bool{}
	for _, part := range o.Plan.Parts {
		for _, planned := range part.Objects {
			known[object.IDOf(planned)] = true
		}
	}
	for _, fields := range o.Record.Objects {
		before := &unstructured.Unstructured{Object: fields}
		if !known[object.IDOf(before)] {
			reasons = append(reasons, fmt.Sprintf("the spec no longer has %s %s: declare its component as before", before.GetKind(), before.GetName()))
		}
	}
	for _, name := range o.Original.Running {
		reasons = append(reasons, "the original operator runs (Deployment "+name+"): stop it until --undo has ended")
	}
	if o.GitOps != "" {
		reasons = append(reasons, fmt.Sprintf("%s manages the DataService and would revert the changes: suspend %[1]s with: %[2]s", o.GitOps, o.Suspend))
	}
	return reasons
}

// isImported reports whether the services use a copy. It accepts a condition of any generation, because the operator may not have seen
// the latest generation.
func isImported(ds *unstructured.Unstructured) bool {
	return conditionOf(ds, dsv1.ConditionImported)["status"] == "True"
}

// isSame reports whether spec.mysql is as before the adoption.
func isSame(o *Observation) bool {
	mysql, _, _ := unstructured.NestedMap(o.DataService.Object, "spec", "mysql")
	return fmt.Sprint(mysql) == fmt.Sprint(o.Record.MySQL)
}

// pause pauses the DataService, and waits until the operator has seen the pause.
func (a *Adopter) pause(ctx context.Context, o *Observation) error {
	if isSame(o) && o.Record.MySQL != nil { // an earlier undo was interrupted near its end, or the adoption has not paused the DataService yet
		return nil
	}
	if !isPaused(o.DataService) {
		if err := a.patchSpec(ctx, o.DataService, true, nil); err != nil {
			return err
		}
		a.Say("DataService " + o.DataService.GetName() + " is paused; waiting until the operator has seen that")
	}
	return a.until(ctx, func() (string, error) {
		ds, err := a.dataService(ctx, o)
		if err != nil {
			return "", err
		}
		if seen, _, _ := unstructured.NestedInt64(ds.Object, "status", "observedGeneration"); seen > 0 && seen < ds.GetGeneration() { // 0: no operator ever ran
			return "the operator has not seen that the DataService is paused: check that the operator runs", nil
		}
		return "", nil
	})
}

// restorePart restores the objects of a component.
func (a *Adopter) restorePart(ctx context.Context, o *Observation, part *reconcile.Part) error {
	var deployment, target *unstructured.Unstructured
	var services, rest []*unstructured.Unstructured
	for _, planned := range part.Objects {
		switch before := o.Record.object(object.IDOf(planned)); {
		case before == nil:
		case before.GetKind() == deploymentKind.Kind:
			deployment, target = before, planned
		case before.GetKind() == serviceKind.Kind:
			services = append(services, before)
		default:
			rest = append(rest, before)
		}
	}
	all := func(objects []*unstructured.Unstructured) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, before := range objects {
				if err := a.restore(ctx, o, before); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if deployment == nil {
		return all(append(services, rest...))(ctx)
	}
	toService := selectorOf(deployment)
	if len(services) > 0 {
		toService = selectorOf(services[0])
	}
	return a.roll(ctx, roll{
		owner: o.owner(), name: deployment.GetName(), from: selectorOf(target), to: selectorOf(deployment),
		isFrom:    func(live *unstructured.Unstructured) bool { return o.owner().Controls(live) && object.Marked(live) },
		toService: toService, service: all(services), before: all(rest), deployment: all([]*unstructured.Unstructured{deployment}),
	})
}

// restore writes an object with the content of the original operator.
func (a *Adopter) restore(ctx context.Context, o *Observation, before *unstructured.Unstructured) error {
	before = before.DeepCopy()
	before.SetUID("")
	live, err := a.get(ctx, before.GroupVersionKind(), before.GetNamespace(), before.GetName())
	if err != nil {
		return err
	}
	switch {
	case live == nil:
		return a.create(ctx, before)
	case o.isOriginal(live):
		return nil
	}
	before.SetUID(live.GetUID())
	before.SetResourceVersion(live.GetResourceVersion())
	if err := a.Client.Update(ctx, before, client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("restore %s %s: %w", before.GetKind(), before.GetName(), err)
	}
	return nil
}

// end deletes the objects that the adoption created, and restores the spec.
func (a *Adopter) end(ctx context.Context, o *Observation) error {
	for _, gvk := range slices.Concat(object.Kinds, []schema.GroupVersionKind{}) {
		made, err := a.list(ctx, gvk, o.owner().Namespace, map[string]string{object.LabelManagedBy: object.ManagedBy, object.LabelInstance: o.owner().Name})
		if err != nil {
			return err
		}
		for _, live := range made {
			if !o.owner().Controls(live) || object.Digest(live) == "" || gvk == object.ClaimKind || object.OutlivesOwner(live) {
				continue
			}
			if err := a.delete(ctx, live, client.PropagationPolicy("Background")); err != nil {
				return err
			}
		}
	}
	if err := a.removeJob(ctx, o); err != nil {
		return err
	}
	ds, err := a.dataService(ctx, o)
	if err != nil {
		return err
	}
	if err := a.patchSpec(ctx, ds, o.Record.Paused, o.Record.MySQL); err != nil {
		return err
	}
	for _, name := range []string{accountName(o.owner().Name), recordName(o.owner().Name)} { // delete the record last
		live, err := a.get(ctx, secretKind, o.owner().Namespace, name)
		if err == nil && live != nil && live.GetLabels()[object.LabelManagedBy] == manager {
			if name == recordName(o.owner().Name) {
				live.SetResourceVersion(o.Record.version)
			}
			err = a.delete(ctx, live)
		}
		if err != nil {
			return err
		}
	}
	a.Say("all objects and the spec are restored: the original operator may run again")
	return nil
}

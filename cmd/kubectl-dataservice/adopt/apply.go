// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Apply adopts all objects, one component after the other. After an interruption, it can be repeated.
func (a *Adopter) Apply(ctx context.Context) error {
	o, err := a.Observe(ctx)
	if err != nil {
		return err
	}
	if report := Judge(o); len(report.Refused) > 0 {
		return &RefusedError{Reasons: report.Refused}
	}
	if progressOf(o.DataService) != notCopied {
		a.Say("all objects are adopted, and a copy of the database exists or is running: see the report")
		return nil
	}
	if o, err = a.begin(ctx, o); err != nil {
		return err
	}
	if o, err = a.secrets(ctx, o); err != nil {
		return err
	}
	for i := range o.Plan.Parts {
		part := &o.Plan.Parts[i]
		if err := a.part(ctx, o, part); err != nil {
			return fmt.Errorf("component %s: %w: no later component was changed; repeat the command, or run it with --undo", part.Name, err)
		}
		a.Say(part.Name + " is adopted")
	}
	return a.resume(ctx, o)
}

// begin records the objects that the adoption changes, and pauses the DataService.
func (a *Adopter) begin(ctx context.Context, o *Observation) (*Observation, error) {
	if o.Record == nil {
		secret, err := newRecord(o).secret(o.DataService)
		if err != nil {
			return nil, err
		}
		if err := a.create(ctx, secret); err != nil {
			return nil, err
		}
		a.Say("the spec and the original objects are recorded in Secret " + secret.GetName())
	}
	mysql := elsewhere(o)
	if mysql != nil {
		if err := a.account(ctx, o); err != nil {
			return nil, err
		}
	}
	if !Judge(o).Complete && (!isPaused(o.DataService) || mysql != nil) {
		if err := a.patchSpec(ctx, o.DataService, true, mysql); err != nil {
			return nil, err
		}
		a.Say("DataService " + o.DataService.GetName() + " is paused")
	}
	return a.Observe(ctx)
}

// account creates the Secret with the root account of the original database.
func (a *Adopter) account(ctx context.Context, o *Observation) error {
	password, err := rootPassword(o.Live[idOf(object.StatefulSetKind, mysqlName)])
	if err != nil {
		return err
	}
	return a.create(ctx, ownSecret(o.DataService, accountName(o.DataService.GetName()), map[string]string{"username": "root", "password": password}))
}

// secrets creates the operator's Secrets with the values in use, so that pods of both operators use the same values.
func (a *Adopter) secrets(ctx context.Context, o *Observation) (*Observation, error) {
	inUse, err := o.valuesInUse()
	if err != nil {
		return nil, err
	}
	for _, secret := range o.Plan.Secrets {
		if live := o.Live[object.IDOf(secret)]; live != nil {
			continue
		}
		secret = object.Unfinished(secret)
		if err := fill(secret, inUse); err != nil {
			return nil, err
		}
		if _, err := object.Finish(secret, o.owner()); err != nil {
			return nil, err
		}
		if err := a.apply(ctx, o, secret); err != nil {
			return nil, err
		}
		a.Say("Secret " + secret.GetName() + " has the passwords and keys in use")
	}
	return a.Observe(ctx)
}

// fill replaces the placeholders in a planned Secret by the values in use, or by new values.
func fill(secret *unstructured.Unstructured, inUse map[string]string) error {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for key, value := range data {
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil || string(text) != plan.Generated {
			continue
		}
		use := inUse[key]
		if use == "" {
			b := make([]byte, 16)
			if _, err := rand.Read(b); err != nil {
				return fmt.Errorf("generate %s of Secret %s: %w", key, secret.GetName(), err)
			}
			use = hex.EncodeToString(b)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(use))
	}
	return unstructured.SetNestedStringMap(secret.Object, data, "data")
}

// part adopts the objects of a component.
func (a *Adopter) part(ctx context.Context, o *Observation, part *reconcile.Part) error {
	var rest []*unstructured.Unstructured
	var deployment, service *unstructured.Unstructured
	for _, planned := range part.Objects {
		switch {
		case planned.GetKind() == deploymentKind.Kind && o.Record.object(object.IDOf(planned)) != nil:
			deployment = planned
		case planned.GetKind() == serviceKind.Kind:
			service = planned
		default:
			rest = append(rest, planned)
		}
	}
	all := func(objects ...*unstructured.Unstructured) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, planned := range objects {
				if planned == nil {
					continue
				}
				if err := a.apply(ctx, o, planned); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if deployment == nil {
		return all(part.Objects...)(ctx)
	}
	before := o.Record.object(object.IDOf(deployment))
	return a.roll(ctx, roll{
		owner: o.owner(), name: deployment.GetName(), from: selectorOf(before), to: selectorOf(deployment),
		isFrom:    func(live *unstructured.Unstructured) bool { return live.GetUID() == before.GetUID() },
		toService: selectorOf(service), service: all(service), before: all(rest...), deployment: all(deployment),
	})
}

// resume resumes the DataService, and verifies that the operator writes nothing.
func (a *Adopter) resume(ctx context.Context, o *Observation) error {
	if o.Record.Paused {
		a.Say("all objects are adopted; the DataService was paused before and stays paused")
		return nil
	}
	o, err := a.Observe(ctx)
	if err != nil {
		return err
	}
	if !isPaused(o.DataService) {
		a.Say("all objects are adopted")
		return nil
	}
	before := versions(o)
	if err := a.patchSpec(ctx, o.DataService, false, nil); err != nil {
		return err
	}
	a.Say("DataService " + o.DataService.GetName() + " is resumed; waiting until the operator has compared all objects")
	if err := a.waitForReady(ctx, o); err != nil {
		return err
	}
	if o, err = a.Observe(ctx); err != nil {
		return err
	}
	var wrote []string
	for id, version := range versions(o) {
		if before[id] != version {
			wrote = append(wrote, id.Kind+" "+id.Name)
		}
	}
	if len(wrote) > 0 {
		slices.Sort(wrote)
		return fmt.Errorf("all objects are adopted, but the operator then changed %s: see 'kubectl dataservice events %s'", strings.Join(wrote, ", "), o.DataService.GetName())
	}
	a.Say("all objects are adopted, and the operator wrote nothing")
	return nil
}

func isPaused(ds *unstructured.Unstructured) bool {
	paused, _, _ := unstructured.NestedBool(ds.Object, "spec", "paused")
	return paused
}

// versions returns a version of each planned object. The version changes with each write of the object, except writes
// of the status.
func versions(o *Observation) map[object.ID]string {
	found := map[object.ID]string{}
	add := func(planned *unstructured.Unstructured) {
		live := o.Live[object.IDOf(planned)]
		if live == nil {
			return
		}
		version := live.GetResourceVersion()
		if _, hasStatus := live.Object["status"]; hasStatus {
			version = fmt.Sprint(live.GetGeneration(), object.Digest(live), live.GetLabels())
		}
		found[object.IDOf(planned)] = string(live.GetUID()) + "/" + version
	}
	for _, secret := range o.Plan.Secrets {
		add(secret)
	}
	for _, part := range o.Plan.Parts {
		for _, planned := range part.Objects {
			add(planned)
		}
	}
	return found
}

// unready returns the reason why a DataService is not ready in its latest generation; "" if it is ready.
func unready(ds *unstructured.Unstructured) string {
	seen, _, _ := unstructured.NestedInt64(ds.Object, "status", "observedGeneration")
	if seen < ds.GetGeneration() {
		return "the operator has not seen the DataService: check that the operator runs"
	}
	switch condition := conditionOf(ds, dsv1.ConditionReady); {
	case condition == nil:
		return "the DataService has no condition Ready"
	case condition["status"] == "True":
		return ""
	default:
		return fmt.Sprint("the DataService is not ready: ", condition["message"])
	}
}

// conditionOf returns a condition of an object, or nil.
func conditionOf(o *unstructured.Unstructured, name string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == name {
			return condition
		}
	}
	return nil
}

// waitForReady waits until the DataService of an observation is ready.
func (a *Adopter) waitForReady(ctx context.Context, o *Observation) error {
	return a.until(ctx, func() (string, error) {
		ds, err := a.dataService(ctx, o)
		if err != nil {
			return "", err
		}
		return unready(ds), nil
	})
}

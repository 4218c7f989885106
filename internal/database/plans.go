// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// Plans renders the objects of resources and caches the last plan of each. The cache saves work during a change: a pass
// plans the cluster every second or two from the same spec. Plans is safe for concurrent use.
type Plans struct {
	renderer *render.Renderer

	mu    sync.Mutex
	known map[types.NamespacedName]planned
}

// planned is the part of a resource, and the inputs that it was made from.
type planned struct {
	from string
	part reconcile.Part
}

// NewPlans returns Plans with an empty cache.
func NewPlans(renderer *render.Renderer) *Plans {
	return &Plans{renderer: renderer, known: map[types.NamespacedName]planned{}}
}

// Part returns the cached part of a resource if generation and inputs are the same, or else the result of create.
func (p *Plans) Part(resource client.Object, inputs string, create func() (reconcile.Part, error)) (reconcile.Part, error) {
	key := client.ObjectKeyFromObject(resource)
	from := fmt.Sprintf("%s/%d/%s", resource.GetUID(), resource.GetGeneration(), inputs)
	p.mu.Lock()
	known, ok := p.known[key]
	p.mu.Unlock()
	if ok && known.from == from && resource.GetUID() != "" {
		return known.part, nil
	}
	part, err := create()
	if err != nil {
		return part, err
	}
	p.mu.Lock()
	p.known[key] = planned{from, part}
	p.mu.Unlock()
	return part, nil
}

// Forget drops the plan of a resource.
func (p *Plans) Forget(namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, types.NamespacedName{Namespace: namespace, Name: name})
}

// Rendering holds the inputs for the objects of a resource.
type Rendering struct {
	Owner  object.Owner
	Chart  string
	Values map[string]any
	// PodTemplate is spec.podTemplate as JSON; nil without one.
	PodTemplate []byte
	// BackupTemplate is spec.backup.podTemplate as JSON, for the CronJobs and the archive; nil without one.
	BackupTemplate []byte
	// Settle modifies the rendered objects; nil if they need no change.
	Settle func([]*unstructured.Unstructured) error
	// Parked suspends the CronJobs while the resource has no pods: a backup would fail, and old backups must not be
	// deleted.
	Parked bool
}

// Render renders the objects of a part and returns the part with them.
func (p *Plans) Render(part reconcile.Part, r Rendering) (reconcile.Part, error) {
	charts := []render.Part{{Name: r.Chart, Chart: r.Chart, Values: r.Values}} // the name of a part may contain a dot, the name of a chart may not
	rendered, err := p.renderer.Render(render.Release{Name: r.Owner.Name, Namespace: r.Owner.Namespace}, charts)
	if err != nil {
		return part, &reconcile.SpecError{Reason: reconcile.ReasonRenderFailed, Err: err}
	}
	if r.PodTemplate != nil {
		if err := render.OverlayStatefulSets("spec.podTemplate", rendered[0], r.PodTemplate); err != nil {
			return part, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
		}
	}
	if r.BackupTemplate != nil {
		if err := render.OverlayBackups("spec.backup.podTemplate", rendered[0], r.BackupTemplate); err != nil {
			return part, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: err}
		}
	}
	if r.Settle != nil {
		if err := r.Settle(rendered[0]); err != nil {
			return part, &reconcile.SpecError{Reason: reconcile.ReasonRenderFailed, Err: err}
		}
	}
	part.Objects = rendered[0]
	if r.Parked {
		for _, o := range part.Objects {
			if o.GetKind() == object.CronJobKind.Kind {
				_ = unstructured.SetNestedField(o.Object, true, "spec", "suspend") // a rendered CronJob has a spec
			}
		}
	}
	if err := part.Finish(r.Owner); err != nil {
		return part, &reconcile.SpecError{Reason: reconcile.ReasonRenderFailed, Err: err}
	}
	return part, nil
}

// Names returns the values that charts use to name objects and their owner.
func Names(owner object.Owner, part string) map[string]any {
	labels := owner.Labels(part)
	maps.DeleteFunc(labels, func(name, _ string) bool { return name != object.LabelKind })
	return map[string]any{"instance": owner.Name, "name": owner.Name, "managedBy": object.ManagedBy, "component": part, "ownerLabels": labels}
}

// Plain returns values for templates: without Go types, and without nil values, so that the chart's defaults apply.
func Plain(values map[string]any) (map[string]any, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	result := map[string]any{}
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("read the spec: %w", err)
	}
	maps.DeleteFunc(result, func(_ string, value any) bool { return value == nil })
	if backup, ok := result["backup"].(map[string]any); ok {
		delete(backup, "podTemplate") // Render merges the podTemplate into the pods
	}
	if policy, ok := result["networkPolicy"].(map[string]any); ok {
		maps.DeleteFunc(policy, func(_ string, value any) bool { return value == nil })
	}
	return result, nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
)

// Component is a declared component with its objects.
type Component struct {
	component.Component

	// Objects are complete, except for fields that the API server adds. They have labels, the digest annotation and, unless they outlive
	// the owner, the owner reference. Objects are shared: do not modify them.
	Objects []*unstructured.Unstructured

	// Revision is the digest of the objects, ignoring their numbers of replicas.
	Revision string

	// NeedsDryRun reports whether the spec has fields that only the API server can validate.
	NeedsDryRun bool
}

// Plan holds all objects of a DataService except its credentials, in the order of the graph.
type Plan struct {
	Components []Component
}

// Planner makes plans, and caches the latest plan of each DataService. It is safe for concurrent use.
type Planner struct {
	renderer *render.Renderer
	images   map[string]string
	memory   *memory
}

// NewPlanner returns a Planner. images replace the charts' default images; see values.Input.
func NewPlanner(renderer *render.Renderer, images map[string]string) *Planner {
	return &Planner{renderer: renderer, images: images, memory: newMemory(openBytes, packedBytes)}
}

// Graph returns the graph of a DataService's spec. The error is a *render.Error.
func (p *Planner) Graph(ds *dsv1.DataService) (*component.Graph, error) {
	return component.NewGraph(&ds.Spec)
}

// Make returns the plan of a DataService. graph is its graph. It renders only the components that have changed since the last plan. Objects
// are shared with earlier plans: do not modify them.
func (p *Planner) Make(ds *dsv1.DataService, graph *component.Graph, credentials values.Credentials) (*Plan, error) {
	from := source{ds.UID, ds.Generation, database(ds, graph), credentials}
	name := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
	var known map[dsv1.ComponentName]rendering
	if ds.UID != "" { // a DataService from a cluster has a UID
		if plan := p.memory.plan(name, from); plan != nil {
			return plan, nil
		}
		known = p.memory.renderings(name, ds.UID)
	}
	plan, inputs, err := p.render(ds, values.Input{
		Instance: ds.Name, Namespace: ds.Namespace, Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
		Credentials: credentials, Images: p.images, UID: string(ds.UID),
	}, known)
	if err != nil {
		return nil, err
	}
	if err := plan.checkUnique(); err != nil {
		return nil, err
	}
	if ds.UID != "" {
		p.memory.add(ds, &remembered{from, plan, inputs})
	}
	return plan, nil
}

// database identifies the planned database, which may change within one generation of a spec.
func database(ds *dsv1.DataService, graph *component.Graph) string {
	c := graph.Get(component.MySQL)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s/%t", ds.Spec.MySQL.Name, c.Chart, c.ChecksMembers)
}

// Forget drops the cached plan of a deleted DataService.
func (p *Planner) Forget(namespace, name string) {
	p.memory.forget(types.NamespacedName{Namespace: namespace, Name: name})
}

// render renders all components except those that have a cached rendering of the same input.
func (p *Planner) render(ds *dsv1.DataService, in values.Input, known map[dsv1.ComponentName]rendering) (*Plan, []string, error) {
	declared := in.Graph.Components
	plan := &Plan{Components: make([]Component, len(declared))}
	inputs := make([]string, len(declared))
	var parts []render.Part
	var changed []int
	size, settings := 0, 0
	for i := range declared {
		c := &declared[i]
		v, err := values.Build(in, c)
		if err != nil {
			return nil, nil, err
		}
		data, err := inputOf(c, v)
		if err != nil {
			return nil, nil, err
		}
		if size += len(data); size > maxInput {
			return nil, nil, &render.Error{Field: "spec", Message: tooMuchInput}
		}
		if settings += len(configOf(v)); settings > maxSettings {
			return nil, nil, &render.Error{Field: "spec", Message: tooManySettings}
		}
		inputs[i] = object.Sum(data)
		plan.Components[i].NeedsDryRun = c.PodTemplate() != nil || c.BackupTemplate() != nil || c.Kind == component.Managed || values.NeedsDryRun(v)
		if was, ok := known[c.Name]; ok && was.input == inputs[i] {
			plan.Components[i].Component, plan.Components[i].Objects, plan.Components[i].Revision = *c, was.objects, was.revision
			continue
		}
		changed, parts = append(changed, i), append(parts, render.Part{Name: string(c.Name), Chart: c.Chart, Values: v})
	}
	if len(parts) == 0 {
		return plan, inputs, nil
	}
	rendered, err := p.renderer.Render(render.Release{Name: ds.Name, Namespace: ds.Namespace}, parts)
	if err != nil {
		return nil, nil, err
	}
	for n, i := range changed {
		if err := completePods(&declared[i], rendered[n]); err != nil {
			return nil, nil, err
		}
		if err := spellOut(rendered[n]); err != nil {
			return nil, nil, err
		}
		if err := plan.Components[i].finish(ds, declared[i], rendered[n]); err != nil {
			return nil, nil, fmt.Errorf("component %s: %w", declared[i].Name, err)
		}
	}
	return plan, inputs, nil
}

// spelledOut returns the fields that the Go type of a resource omits if their value is false. The resource is of one of the operator's kinds.
// A plan must include these fields: otherwise the operator would not correct another writer's changes of these fields.
func spelledOut(o *unstructured.Unstructured) [][]string {
	return [][]string{{"spec", object.PauseField(o)}, {"spec", "networkPolicy", "enabled"}}
}

func spellOut(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if !object.IsResource(o) || object.IsForeign(o) {
			continue
		}
		for _, field := range spelledOut(o) {
			if _, given, _ := unstructured.NestedBool(o.Object, field...); given {
				continue
			}
			if err := unstructured.SetNestedField(o.Object, false, field...); err != nil {
				return fmt.Errorf("complete %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// inputOf returns the inputs of a component's objects, as JSON. It omits the DataService's name, namespace and UID, and
// inputs that do not change while the process runs.
func inputOf(c *component.Component, v map[string]any) ([]byte, error) {
	input := struct {
		Chart          string
		Values         map[string]any
		PodTemplate    string
		BackupTemplate string
		LeavesNumber   bool
	}{Chart: c.Chart, Values: v, LeavesNumber: leavesNumber(c)}
	if template := c.PodTemplate(); template != nil {
		input.PodTemplate = string(template.Raw)
	}
	if template := c.BackupTemplate(); template != nil {
		input.BackupTemplate = string(template.Raw)
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data) // sorts keys
	encoder.SetEscapeHTML(false)      // escapes would only make the text longer
	if err := encoder.Encode(input); err != nil {
		return nil, fmt.Errorf("compute the inputs of %s: %w", c.Name, err)
	}
	return data.Bytes(), nil
}

// OwnerOf returns the object.Owner of a DataService.
func OwnerOf(ds *dsv1.DataService) object.Owner {
	return object.Owner{
		GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID,
	}
}

func (c *Component) finish(ds *dsv1.DataService, declared component.Component, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if err := checkSizes(&declared, obj); err != nil {
			return err
		}
	}
	revision, err := object.FinishAll(objects, OwnerOf(ds))
	if err != nil {
		return err
	}
	c.Component, c.Objects, c.Revision = declared, objects, revision
	if leavesNumber(&declared) {
		for _, obj := range objects {
			if kind := obj.GetKind(); kind == "Deployment" || kind == "StatefulSet" {
				unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
			}
		}
	}
	return nil
}

// leavesNumber reports whether a service declares no number of pods. Its workload is created with the API server's default of 1, and
// another writer may change the number. The digest is computed with the number 1, as in release 0.2.0, so that an upgrade writes nothing.
func leavesNumber(c *component.Component) bool {
	return c.Service != nil && c.Workload.Replica == nil
}

// checkUnique refuses two components that render the same object. For example, a service named web-template conflicts with the template of
// web.
func (p *Plan) checkUnique() error {
	seen := map[object.ID]*Component{}
	for i := range p.Components {
		c := &p.Components[i]
		for _, planned := range c.Objects {
			k := object.IDOf(planned)
			if other, ok := seen[k]; ok {
				return &render.Error{
					Field:   c.Path + ".name",
					Message: fmt.Sprintf("%s %s is already an object of %s; choose another name", k.Kind, k.Name, other.Path),
				}
			}
			seen[k] = c
		}
	}
	return nil
}

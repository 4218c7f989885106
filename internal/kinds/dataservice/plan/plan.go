// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan turns a DataService into the objects that it stands for:
// graph, values and render, for all components at once, before anything is
// written. It is pure; the operator applies a plan, `render` prints it.
package plan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/specfield"
)

// Component is a declared component and its objects.
type Component struct {
	component.Component

	// Objects are complete but for what the API server adds: labels, digest annotation, and the
	// owner unless they are to outlive it. They are shared; nobody may change them.
	Objects []*unstructured.Unstructured

	// Revision is the digest of the objects without their number of replicas.
	Revision string

	// NeedsDryRun: the spec holds something that only the API server can judge.
	NeedsDryRun bool
}

// Plan is every object of a DataService but its credentials, in the order of the graph.
type Plan struct {
	Components []Component
}

// Planner makes plans and remembers the latest of each DataService. It is safe for concurrent use.
type Planner struct {
	renderer *render.Renderer
	images   map[string]string
	memory   *memory
}

// NewPlanner returns a Planner. images replace the charts' default images, see values.Input.
func NewPlanner(renderer *render.Renderer, images map[string]string) *Planner {
	return &Planner{renderer: renderer, images: images, memory: newMemory(openBytes, packedBytes)}
}

// Graph returns the graph of a DataService's spec; the error is a *specfield.Error.
func (p *Planner) Graph(ds *dsv1.DataService) (*component.Graph, error) {
	return component.NewGraph(&ds.Spec)
}

// Make returns the plan of a DataService whose graph is already known. Components that are as they
// were when a plan was last made for it are not rendered again. Objects are shared with earlier
// plans: they must not be changed.
func (p *Planner) Make(ds *dsv1.DataService, graph *component.Graph, credentials values.Credentials) (*Plan, error) {
	from := source{ds.UID, ds.Generation, database(ds), credentials}
	name := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
	var known map[dsv1.ComponentName]rendering
	if ds.UID != "" { // it is from a cluster
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

func database(ds *dsv1.DataService) string {
	if ds.Spec.MySQL == nil {
		return ""
	}
	return ds.Spec.MySQL.Name
}

// Forget drops what is remembered of a DataService. The caller calls it when the DataService is
// gone.
func (p *Planner) Forget(namespace, name string) {
	p.memory.forget(types.NamespacedName{Namespace: namespace, Name: name})
}

// render renders all components but those that are known from the same input.
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
			return nil, nil, &specfield.Error{Field: "spec", Message: tooMuchInput}
		}
		if settings += len(configOf(v)); settings > maxSettings {
			return nil, nil, &specfield.Error{Field: "spec", Message: tooManySettings}
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

// spelledOut are the fields of one of the operator's own resources whose zero value its Go type leaves out. A plan has them, so that
// they are put back when somebody changes them.
func spelledOut(o *unstructured.Unstructured) [][]string {
	return [][]string{{"spec", object.PauseField(o)}, {"spec", "networkPolicy", "enabled"}}
}

func spellOut(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if !object.IsResource(o) {
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

// inputOf returns all that the objects of a component are made from, but for the DataService's
// name, namespace and UID and what is the same throughout the process.
func inputOf(c *component.Component, v map[string]any) ([]byte, error) {
	input := struct {
		Chart          string
		Values         map[string]any
		PodTemplate    string
		BackupTemplate string
	}{Chart: c.Chart, Values: v}
	if template := c.PodTemplate(); template != nil {
		input.PodTemplate = string(template.Raw)
	}
	if template := c.BackupTemplate(); template != nil {
		input.BackupTemplate = string(template.Raw)
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data) // sorts keys
	encoder.SetEscapeHTML(false)      // which would make it longer
	if err := encoder.Encode(input); err != nil {
		return nil, fmt.Errorf("compute what %s is made from: %w", c.Name, err)
	}
	return data.Bytes(), nil
}

// OwnerOf returns a DataService as the owner of objects.
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
	return nil
}

// checkUnique refuses two components that render the same object, such as a service named
// web-template beside web, whose template has that name.
func (p *Plan) checkUnique() error {
	seen := map[object.ID]*Component{}
	for i := range p.Components {
		c := &p.Components[i]
		for _, planned := range c.Objects {
			k := object.IDOf(planned)
			if other, ok := seen[k]; ok {
				return &specfield.Error{
					Field:   c.Path + ".name",
					Message: fmt.Sprintf("%s %s is already an object of %s; choose another name", k.Kind, k.Name, other.Path),
				}
			}
			seen[k] = c
		}
	}
	return nil
}

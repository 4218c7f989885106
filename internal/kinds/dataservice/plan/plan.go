// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan turns a DataService into the objects that it stands for:
// graph, values and render, for all components at once, before anything is
// written. It is pure; the operator applies a plan, `render` prints it.
package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// A plan is needed while something changes. A few are kept as they are, about 0.5 MB for a whole
// platform; far more as compressed JSON, a fortieth of that, which takes some two milliseconds to
// read and not the tens that rendering takes. So many DataServices can be in motion at once before
// plans are made anew for each event.
const (
	openPlans   = 32
	cachedPlans = 2048
)

// Component is a declared component and its objects.
type Component struct {
	component.Component

	// Objects are complete but for what the API server adds: labels, digest annotation, and the
	// owner unless they are to outlive it. They are shared; nobody may change them.
	Objects []*unstructured.Unstructured

	// Revision is the digest of the objects without their number of replicas.
	Revision string

	// Unchecked: the spec holds something that only the API server can judge.
	Unchecked bool
}

// Plan is every object of a DataService but its credentials, in the order of the graph.
type Plan struct {
	Components []Component
}

// Planner makes plans and remembers the latest. It is safe for concurrent use.
type Planner struct {
	renderer *render.Renderer
	images   map[string]string
	graphs   *lru.Cache // version -> *component.Graph
	open     *lru.Cache // key -> *Plan
	cache    *lru.Cache // key -> *packed
}

// NewPlanner returns a Planner. images replace the charts' default images, see values.Input.
func NewPlanner(renderer *render.Renderer, images map[string]string) *Planner {
	p := &Planner{renderer: renderer, images: images, graphs: lru.New(cachedPlans), cache: lru.New(cachedPlans)}
	p.open = lru.NewWithEvictionFunc(openPlans, p.putAway)
	return p
}

// putAway packs a plan that makes room for another. One that cannot be packed is made anew.
func (p *Planner) putAway(k lru.Key, plan any) {
	if _, ok := p.cache.Get(k); ok {
		return
	}
	if packed, err := pack(plan.(*Plan)); err == nil {
		p.cache.Add(k, packed)
	}
}

// version identifies a spec within one process.
type version struct {
	uid        types.UID
	generation int64
}

// key is all that a plan depends on, within one process.
type key struct {
	version
	credentials values.Credentials
}

// Graph returns the graph of a DataService's spec; the error is a *component.FieldError.
func (p *Planner) Graph(ds *dsv1.DataService) (*component.Graph, error) {
	k := version{ds.UID, ds.Generation}
	if cached, ok := p.graphs.Get(k); ok && ds.UID != "" {
		return cached.(*component.Graph), nil
	}
	graph, err := component.NewGraph(&ds.Spec)
	if err == nil {
		p.graphs.Add(k, graph)
	}
	return graph, err
}

// Make returns the plan of a DataService whose graph is already known.
func (p *Planner) Make(ds *dsv1.DataService, graph *component.Graph, credentials values.Credentials) (*Plan, error) {
	k := key{version{ds.UID, ds.Generation}, credentials}
	if ds.UID != "" {
		if cached, err := p.known(k); cached != nil || err != nil {
			return cached, err
		}
	}
	in := values.Input{
		Instance: ds.Name, Namespace: ds.Namespace, Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
		Credentials: credentials, Images: p.images,
	}
	plan, err := p.render(ds, in)
	if err != nil {
		return nil, err
	}
	if err := plan.checkUnique(); err != nil {
		return nil, err
	}
	if ds.UID != "" {
		p.open.Add(k, plan)
	}
	return plan, nil
}

// known returns a plan that is remembered, or nil.
func (p *Planner) known(k key) (*Plan, error) {
	if open, ok := p.open.Get(k); ok {
		return open.(*Plan), nil
	}
	cached, ok := p.cache.Get(k)
	if !ok {
		return nil, nil
	}
	plan, err := cached.(*packed).unpack()
	if err != nil {
		return nil, err
	}
	p.open.Add(k, plan)
	return plan, nil
}

func (p *Planner) render(ds *dsv1.DataService, in values.Input) (*Plan, error) {
	components := in.Graph.Components
	parts := make([]render.Part, len(components))
	plan := &Plan{Components: make([]Component, len(components))}
	for i := range components {
		v, err := values.Build(in, &components[i])
		if err != nil {
			return nil, err
		}
		plan.Components[i].Unchecked = components[i].PodTemplate() != nil || values.Unchecked(v)
		parts[i] = render.Part{Name: string(components[i].Name), Chart: components[i].Chart, Values: v}
	}
	rendered, err := p.renderer.Render(render.Release{Name: ds.Name, Namespace: ds.Namespace}, parts)
	if err != nil {
		return nil, err
	}
	for i := range components {
		if err := completePods(&components[i], rendered[i]); err != nil {
			return nil, err
		}
		if err := plan.Components[i].finish(ds, components[i], rendered[i]); err != nil {
			return nil, fmt.Errorf("component %s: %w", components[i].Name, err)
		}
	}
	return plan, nil
}

// OwnerOf returns a DataService as the owner of objects.
func OwnerOf(ds *dsv1.DataService) object.Owner {
	return object.Owner{
		GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID,
	}
}

func (c *Component) finish(ds *dsv1.DataService, declared component.Component, objects []*unstructured.Unstructured) error {
	var revisions []byte
	for _, obj := range objects {
		if obj.GetNamespace() != ds.Namespace {
			return fmt.Errorf("%s %s is not in namespace %s: charts may only render objects of the DataService's own namespace",
				obj.GetKind(), obj.GetName(), ds.Namespace)
		}
		if err := checkSizes(&declared, obj); err != nil {
			return err
		}
		revision, err := object.Finish(obj, OwnerOf(ds))
		if err != nil {
			return err
		}
		if obj.GetKind() != "PodDisruptionBudget" { // it comes and goes with the number of pods
			revisions = append(revisions, revision...)
		}
	}
	c.Component, c.Objects, c.Revision = declared, objects, object.Sum(revisions)
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
				return &component.FieldError{
					Field:   c.Path + ".name",
					Message: fmt.Sprintf("%s %s is already an object of %s; choose another name", k.Kind, k.Name, other.Path),
				}
			}
			seen[k] = c
		}
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/reconcile"
)

// form is the planned form of the mysql of a DataService: a single server, or several members. The planned form
// differs from the declared form while a single server becomes several members. It also differs if several members
// remain although a single server is declared.
type form struct {
	*mysql.Form // nil if there is no mysql

	stage mysql.Stage
	// ds is the DataService with the planned form instead of the declared one. graph is the graph of ds.
	ds    *dsv1.DataService
	graph *component.Graph
	// declared is the DataService as the user declared it. declaredGraph is its graph.
	declared      *dsv1.DataService
	declaredGraph *component.Graph
	// image is the image of the declared members; it is set only in the stage Check.
	image string
}

// formOf decides the form of the mysql of a DataService.
func (k *Kind) formOf(declared *dsv1.DataService, in reconcile.Inputs) (*form, error) {
	graph, err := k.planner.Graph(declared)
	if err != nil {
		return nil, reconcile.SpecErrorOf(err)
	}
	f := &form{ds: declared, graph: graph, declared: declared, declaredGraph: graph}
	c := graph.Get(component.MySQL)
	if c == nil {
		return f, nil
	}
	spec := declaredDatabase(declared, c)
	if f.Form, err = mysql.FindForm(spec, in); err != nil {
		return nil, err
	}
	f.stage = f.Stage()
	if !f.becomes() && !f.Stays() {
		return f, nil
	}
	f.ds = f.As(declared)
	if f.graph, err = k.planner.Graph(f.ds); err != nil {
		return nil, reconcile.SpecErrorOf(err)
	}
	f.graph.Get(component.MySQL).ChecksMembers = f.stage == mysql.StageCheck
	return f, nil
}

// becomes reports whether a single server runs and several members are declared.
func (f *form) becomes() bool { return f.stage == mysql.StageCheck || f.stage == mysql.StageImport }

// trials returns the MySQLCluster that will replace a single server, so that the API server can validate it first. It
// returns an error if the spec has fields that a MySQLCluster does not support.
func (k *Kind) trials(f *form, credentials values.Credentials) ([]reconcile.Trial, error) {
	if !f.becomes() {
		return nil, nil
	}
	wanted, err := k.planner.Make(f.declared, f.declaredGraph, credentials)
	if err != nil {
		return nil, reconcile.SpecErrorOf(err)
	}
	var trials []reconcile.Trial
	for i := range wanted.Components {
		c := &wanted.Components[i]
		if c.Name != component.MySQL {
			continue
		}
		for _, o := range c.Objects {
			if object.IsResource(o) {
				f.image, _, _ = unstructured.NestedString(o.Object, "spec", "image")
				trials = append(trials, reconcile.Trial{Path: c.Path, Object: o})
			}
		}
	}
	return trials, nil
}

// apply adds the objects of the planned form to a plan, and sets the state of the database in obs.
func (f *form) apply(result *reconcile.Plan, obs *Observation, in reconcile.Inputs) error {
	c := f.graph.Get(component.MySQL)
	if c == nil || c.Kind == component.ThirdParty {
		return nil
	}
	var own *reconcile.Part
	for i := range result.Parts {
		if result.Parts[i].Name == mysql.Component {
			own = &result.Parts[i]
		}
	}
	switch {
	case f.stage == mysql.StageCheck && obs.Hibernation.IsActive(): // the check needs the server
	case f.stage == mysql.StageCheck:
		takeover, err := mysql.PlanTakeover(declaredDatabase(f.declared, c), f.Form, f.image, result.Parts, in)
		if err != nil {
			return err
		}
		obs.Databases.Takeover = takeover
		own.Notes = append(own.Notes, health.Info(takeover.Note()))
	case f.stage == mysql.StageRemove:
		f.Vacate(own)
		obs.Databases = &mysql.Databases{IsLeaving: true}
	case c.Kind == component.Managed:
		members, err := mysql.MembersOf(f.declared.Spec.MySQL.Backup, f.Cluster)
		if err != nil {
			return err
		}
		obs.Members = members
		return f.Adopt(own, plan.OwnerOf(f.ds))
	}
	return nil
}

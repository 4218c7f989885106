// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foresee plans DataServices as an operator would, and says what that would change in a cluster: it reads what
// package diff judges. It imports the API of DataServices, because it plans them.
package foresee

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/cli/diff"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// Operator is an operator of which is asked what it would do.
type Operator struct {
	renderer *render.Renderer
	images   map[string]string
	judge    *apply.Judge
}

// NewOperator returns an operator of this version, with this program's charts, on a version of Kubernetes. images replace
// the charts' default images.
func NewOperator(version, kubeVersion string, images map[string]string) (*Operator, error) {
	renderer, err := render.New(kubeVersion)
	if err != nil {
		return nil, err
	}
	types, err := apply.NewTypes(crd.Files)
	if err != nil {
		return nil, err
	}
	return &Operator{renderer: renderer, images: images, judge: apply.NewJudge(types, version)}, nil
}

// Diff plans a DataService as the operator does, with the Secrets of the cluster, and holds that against the cluster:
// live is what is there.
func (o *Operator) Diff(ctx context.Context, r *Reader, ds *dsv1.DataService) (d *diff.Diff, live []*unstructured.Unstructured, err error) {
	there, err := r.there(ctx, ds.Name)
	if err != nil {
		return nil, nil, err
	}
	planned, err := o.plan(ctx, r, ds, there)
	if err != nil {
		return nil, nil, err
	}
	if err := r.complete(ctx, there, planned); err != nil {
		return nil, nil, err
	}
	d = diff.Compute(plan.OwnerOf(ds), planned, *there, o.judge)
	if m := ds.Spec.MySQL; there.SecretsUnread && m != nil && m.ThirdParty != nil && m.ThirdParty.Password != "" {
		d.Notes = append(d.Notes, "mysql's password is in the spec: without the right to read Secrets, restarts of its users may be shown that do not come")
	}
	return d, there.Objects, nil
}

// there is what belongs to a DataService.
func (r *Reader) there(ctx context.Context, name string) (*diff.Cluster, error) {
	objects, refused, err := r.Objects(ctx, Selector(name, ""), slices.Concat(object.Kinds, object.Resources))
	if err != nil {
		return nil, err
	}
	there := &diff.Cluster{Objects: objects}
	for _, kind := range refused {
		if slices.ContainsFunc(object.Resources, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind }) {
			continue // one that is planned is read by its name
		}
		if kind != "Secret" {
			return nil, fmt.Errorf("you may not list %s in namespace %s", kind, r.Namespace)
		}
		there.SecretsUnread = true
	}
	return there, nil
}

// complete adds what stands in the place of planned objects without belonging to the DataService.
func (r *Reader) complete(ctx context.Context, there *diff.Cluster, planned *engine.Plan) error {
	known := map[object.ID]bool{}
	for _, o := range there.Objects {
		known[object.IDOf(o)] = true
	}
	var wanted []*unstructured.Unstructured
	if !there.SecretsUnread {
		wanted = append(wanted, planned.Secrets...)
	}
	for i := range planned.Records {
		wanted = append(wanted, planned.Records[i].Object)
	}
	for i := range planned.Parts {
		wanted = append(wanted, planned.Parts[i].Objects...)
	}
	wanted = slices.DeleteFunc(wanted, func(o *unstructured.Unstructured) bool { return known[object.IDOf(o)] })
	var all errgroup.Group
	all.SetLimit(10)
	found := make([]*unstructured.Unstructured, len(wanted))
	for i, o := range wanted {
		all.Go(func() (err error) {
			found[i], err = r.get(ctx, o.GroupVersionKind(), o.GetName())
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, o := range found {
		if o != nil {
			there.Objects = append(there.Objects, o)
		}
	}
	return nil
}

// plan plans as the operator does. Nothing is remembered: the next plan may be of another spec of the same generation.
func (o *Operator) plan(ctx context.Context, r *Reader, ds *dsv1.DataService, there *diff.Cluster) (*engine.Plan, error) {
	kind := dataservice.New(plan.NewPlanner(o.renderer, o.images), credentials.NewPreview(), nil, nil, nil)
	return kind.Plan(ds, kinds.Inputs{
		Lookup: func(kind, name string) (*unstructured.Unstructured, error) {
			for _, live := range there.Objects {
				if live.GetKind() == kind && live.GetName() == name {
					return live, nil
				}
			}
			if kind == "Secret" && there.SecretsUnread { // it may be there, and its values are not looked at
				return &unstructured.Unstructured{Object: map[string]any{}}, nil
			}
			return nil, nil
		},
		LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
			if kind == "Secret" { // whether a user's needs a copy is not foreseen: who asks may not read it
				return nil, nil
			}
			for _, gvk := range object.Kinds {
				if gvk.Kind == kind {
					return r.get(ctx, gvk, name)
				}
			}
			return nil, fmt.Errorf("there is no kind %s", kind)
		},
		List: func(kind string) (found []*unstructured.Unstructured, err error) {
			for _, live := range there.Objects {
				if live.GetKind() == kind && object.OwnerText(live) == "DataService "+ds.Name {
					found = append(found, live)
				}
			}
			return found, nil
		},
		Pods:       func(part string) ([]*corev1.Pod, error) { return r.Pods(ctx, Selector(ds.Name, part)) },
		PodsLive:   func(part string) ([]*corev1.Pod, error) { return r.Pods(ctx, Selector(ds.Name, part)) },
		Generation: func() (int64, error) { return ds.Generation, nil }, // that of the spec that is tried
	})
}

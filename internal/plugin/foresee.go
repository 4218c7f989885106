// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// Operator plans as an operator of a given version does. It changes nothing.
type Operator struct {
	renderer *render.Renderer
	images   map[string]string
	judge    *apply.Judge
}

// NewOperator returns an operator of this version, with this program's charts, for a version of Kubernetes. images replace the charts'
// default images.
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

// Diff plans a DataService as the operator does, with the Secrets of the cluster, and compares the plan with the live objects. It also
// returns the live objects.
func (o *Operator) Diff(ctx context.Context, r *Reader, ds *dsv1.DataService) (d *Diff, live []*unstructured.Unstructured, err error) {
	planned, there, err := o.Plan(ctx, r, ds)
	if err != nil {
		return nil, nil, err
	}
	d = Compute(plan.OwnerOf(ds), planned, *there, o.judge)
	if m := ds.Spec.MySQL; there.SecretsUnread && m != nil && m.ThirdParty != nil && m.ThirdParty.Password != "" {
		d.Notes = append(d.Notes, "mysql's password is in the spec, and you may not read Secrets: some restarts in this diff may not happen")
	}
	return d, there.Objects, nil
}

// Plan plans a DataService as the operator does. It also returns the live objects that belong to the DataService or have a planned name. In
// the plan, each generated value of a missing Secret is the placeholder plan.Generated.
func (o *Operator) Plan(ctx context.Context, r *Reader, ds *dsv1.DataService) (*reconcile.Plan, *Cluster, error) {
	there, err := r.there(ctx, ds.Name)
	if err != nil {
		return nil, nil, err
	}
	planned, err := o.plan(ctx, r, ds, there)
	if err != nil {
		return nil, nil, err
	}
	return planned, there, r.complete(ctx, there, planned)
}

// there reads the objects of a DataService.
func (r *Reader) there(ctx context.Context, name string) (*Cluster, error) {
	objects, refused, err := r.Objects(ctx, Selector(name, ""), slices.Concat(object.Kinds, object.Optional))
	if err != nil {
		return nil, err
	}
	there := &Cluster{Objects: objects}
	for _, kind := range WithoutOptional(refused) { // planned resources are read by name
		if kind != "Secret" {
			return nil, fmt.Errorf("you may not list %s in namespace %s", kind, r.Namespace)
		}
		there.SecretsUnread = true
	}
	return there, nil
}

// complete adds live objects that have a planned name and do not belong to the DataService.
func (r *Reader) complete(ctx context.Context, there *Cluster, planned *reconcile.Plan) error {
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
			found[i], err = r.Get(ctx, o.GroupVersionKind(), o.GetName())
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

// plan plans as the operator does, without a cache: the next plan may be for another spec with the same generation.
func (o *Operator) plan(ctx context.Context, r *Reader, ds *dsv1.DataService, there *Cluster) (*reconcile.Plan, error) {
	kind := platform.New(plan.NewPlanner(o.renderer, o.images), plan.NewPreview(), nil, nil, nil)
	return kind.Plan(ds, reconcile.Inputs{
		Lookup: func(kind, name string) (*unstructured.Unstructured, error) {
			for _, live := range there.Objects {
				if live.GetKind() == kind && live.GetName() == name {
					return live, nil
				}
			}
			if kind == "Secret" && there.SecretsUnread { // the Secret may exist; its values were not read
				return &unstructured.Unstructured{Object: map[string]any{}}, nil
			}
			return nil, nil
		},
		LookupAny: func(kind, name string) (*unstructured.Unstructured, error) {
			for _, gvk := range object.Kinds {
				if gvk.Kind == kind {
					return r.Get(ctx, gvk, name)
				}
			}
			return nil, fmt.Errorf("there is no kind %s", kind)
		},
		LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
			if kind == "Secret" { // the user's Secret was not read, so its copy cannot be predicted
				return nil, nil
			}
			for _, gvk := range object.Kinds {
				if gvk.Kind == kind {
					return r.Get(ctx, gvk, name)
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
		Pods: func(part string) ([]*corev1.Pod, error) { return r.Pods(ctx, Selector(ds.Name, part)) },
		PodsOf: func(of object.Owner, part string) ([]*corev1.Pod, error) {
			return r.Pods(ctx, labels.SelectorFromSet(of.Labels(part)).String())
		},
		PodsLive:   func(part string) ([]*corev1.Pod, error) { return r.Pods(ctx, Selector(ds.Name, part)) },
		Generation: func() (int64, error) { return ds.Generation, nil }, // generation of the spec to plan
	}, &platform.Observation{})
}

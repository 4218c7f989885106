// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// FindForm returns the declared form, and the existing objects of the other form. If the declared form must not run, it returns an error
// for users, and nothing changes.
func FindForm(spec Declared, in reconcile.Inputs) (*Form, error) {
	form, err := formOf(spec, in)
	if err != nil {
		return nil, fmt.Errorf("check whether the database runs as one server or as several members: %w", err)
	}
	if field, why := form.Refusal(); why != "" {
		return nil, reconcile.SpecErrorOf(render.FieldError(spec.Path+"."+field, "%s", why))
	}
	return form, nil
}

func formOf(spec Declared, in reconcile.Inputs) (*Form, error) {
	form := &Form{Name: spec.Database, IsReplicated: spec.IsReplicated(), IsElsewhere: spec.Workload == "", IsImported: spec.MySQL != nil && spec.ImportFrom != nil}
	clusters, err := in.List("MySQLCluster")
	if err != nil {
		return nil, err
	}
	for _, o := range clusters {
		form.Clusters = append(form.Clusters, o.GetName())
		if o.GetName() == form.Name {
			form.Cluster = o
		}
	}
	claim, err := in.LookupAny(object.ClaimKind.Kind, ClaimName(spec.Database))
	if err != nil {
		return nil, err
	}
	if claim != nil {
		form.Claim = claim.GetLabels()[object.LabelComponent]
	}
	if !form.IsReplicated && !form.Stays() {
		return form, nil
	}
	records, err := in.List(object.ConfigMapKind.Kind)
	if err != nil {
		return nil, err
	}
	for _, o := range records {
		if r, _, is := ReadRecord(o); is && o.GetLabels()[object.LabelComponent] == Component {
			form.Records = append(form.Records, r)
			if r.Database == form.Name && r.isClean() {
				form.Mark, _, _ = unstructured.NestedString(o.Object, "data", contract.RecordID)
			}
		}
	}
	return form, form.findServer(in)
}

// findServer finds the existing objects of a single server: those whose names a MySQLCluster also uses, and the pod.
func (f *Form) findServer(in reconcile.Inputs) error {
	for _, of := range []struct{ kind, suffix string }{
		{"StatefulSet", ""}, {"Deployment", ""}, {"Service", ""}, {"NetworkPolicy", ""}, {"PodDisruptionBudget", ""},
		{"CronJob", "-backup"}, {"CronJob", "-prune"}, {"CronJob", "-verify"}, {"Deployment", "-archive"},
	} {
		found, err := in.Lookup(of.kind, f.Name+of.suffix)
		if err != nil {
			return err
		}
		if found != nil {
			f.Left = append(f.Left, of.kind+" "+f.Name+of.suffix)
			f.IsTaken = f.IsTaken || of.kind == "Service"
		}
	}
	pods, err := in.Pods(Component)
	for _, pod := range pods {
		if !IsOther(f.Name, pod) {
			f.Left = append(f.Left, "Pod "+pod.Name)
		}
	}
	return err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Change is the predicted change of one object.
type Change struct {
	Component string       `json:"component,omitempty"`
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	Action    apply.Action `json:"action,omitempty"`
	// Error is the reason why the operator would not change the object; empty if it would.
	Error string `json:"error,omitempty"`
	// Pods is the number of running pods that are replaced.
	Pods int64 `json:"pods,omitempty"`
	// Starts is the number of pods that a new workload starts.
	Starts int64   `json:"starts,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// Note is an additional fact for the user.
	Note string `json:"note,omitempty"`

	before, after *unstructured.Unstructured
}

// Field is a changed field with values that may be printed.
type Field struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// Cluster is the live state.
type Cluster struct {
	// Objects are the live objects in the owner's namespace that have the operator's label, or the name of a planned object.
	Objects []*unstructured.Unstructured
	// SecretsUnread reports that Objects contains no Secrets, because the user may not read them.
	SecretsUnread bool
}

// Diff lists the changes that the operator would make.
type Diff struct {
	Changes []Change `json:"changes"`
	// Unchanged is the number of objects without a change.
	Unchanged int `json:"unchanged"`
	// Notes name the limitations of this diff.
	Notes []string `json:"notes,omitempty"`
}

// Changed reports whether the operator would write, delete or refuse an object.
func (d *Diff) Changed() bool { return len(d.Changes) > 0 }

// Compute returns the changes with which the operator would make the cluster equal to the plan.
func Compute(owner object.Owner, plan *reconcile.Plan, cluster Cluster, judge *apply.Judge) *Diff {
	d := &Diff{}
	live := map[object.ID]*unstructured.Unstructured{}
	var claims []*unstructured.Unstructured
	for _, o := range cluster.Objects {
		live[object.IDOf(o)] = o
		if o.GetKind() == object.ClaimKind.Kind && owner.Names(o) {
			claims = append(claims, o)
		}
	}
	planned := map[object.ID]bool{}
	look := func(component string, o *unstructured.Unstructured) {
		planned[object.IDOf(o)] = true
		d.object(owner, component, o, live[object.IDOf(o)], claims, judge)
	}
	for _, secret := range plan.Secrets {
		planned[object.IDOf(secret)] = true
		if !cluster.SecretsUnread {
			look(secret.GetLabels()[object.LabelComponent], secret)
		}
	}
	for _, record := range plan.Records {
		look(record.Object.GetLabels()[object.LabelComponent], record.Object)
	}
	parts := map[string]*reconcile.Part{}
	for i := range plan.Parts {
		part := &plan.Parts[i]
		parts[part.Name] = part
		for _, o := range part.Objects {
			look(part.Name, o)
		}
	}
	d.prune(owner, plan, parts, cluster, planned, claims)
	if cluster.SecretsUnread && len(plan.Secrets) > 0 {
		d.Notes = append(d.Notes, "Secrets were not compared: you may not read them")
	}
	return d
}

func (d *Diff) object(owner object.Owner, component string, planned, live *unstructured.Unstructured, claims []*unstructured.Unstructured, judge *apply.Judge) {
	c := Change{Component: component, Kind: planned.GetKind(), Name: planned.GetName(), before: live}
	planned, resizes := judge.FitVolumes(planned, live, claims)
	for _, r := range resizes {
		resized := Change{Component: component, Kind: r.Claim.GetKind(), Name: r.Claim.GetName(), Action: apply.Updated, Note: r.Refused,
			Fields: []Field{{"spec.resources.requests.storage", r.Has.String(), r.Get.String()}}}
		if r.Refused != "" {
			d.Notes = append(d.Notes, r.Claim.GetKind()+" "+r.Claim.GetName()+" "+r.Refused)
			continue
		}
		d.Changes = append(d.Changes, resized)
	}
	verdict, err := judge.Judge(owner, planned, live)
	switch {
	case err != nil:
		c.Error = err.Error()
	case verdict.Action == apply.Unchanged:
		d.Unchanged++
		return
	}
	c.Action, c.after = verdict.Action, verdict.Result
	for _, f := range verdict.Fields {
		c.Fields = append(c.Fields, shown(planned, f))
	}
	if verdict.NewPods {
		if live == nil {
			c.Starts = replicas(planned, nil)
		} else if !onDelete(planned) {
			c.Pods = replicas(live, live)
		}
	}
	if c.Action == apply.Replaced && c.Pods == 0 && c.Kind == "StatefulSet" {
		c.Note = "its pods keep running"
	}
	if c.Error == "" && live != nil && c.Action == apply.Updated && len(c.Fields) == 0 {
		c.Note = "only annotations of the operator change"
	}
	d.Changes = append(d.Changes, c)
}

// shown returns a field without the values of a Secret.
func shown(planned *unstructured.Unstructured, f apply.Field) Field {
	if planned.GetKind() == "Secret" {
		return Field{Path: f.Path}
	}
	return Field{f.Path, f.Old, f.New}
}

func onDelete(workload *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(workload.Object, "spec", "updateStrategy", "type")
	return strategy == "OnDelete"
}

// replicas returns the number of pods of a workload.
func replicas(workload, live *unstructured.Unstructured) int64 {
	if workload.GetKind() == "DaemonSet" {
		if live == nil {
			return 0 // one pod per matching node
		}
		n, _, _ := unstructured.NestedInt64(live.Object, "status", "desiredNumberScheduled")
		return n
	}
	n, found, _ := unstructured.NestedInt64(workload.Object, "spec", "replicas")
	if !found {
		return 1
	}
	return n
}

// prune adds the deletion of each object that the owner controls and that is no longer in its plan. pass.prune of package reconcile
// documents the exceptions.
func (d *Diff) prune(owner object.Owner, plan *reconcile.Plan, parts map[string]*reconcile.Part, cluster Cluster, planned map[object.ID]bool, claims []*unstructured.Unstructured) {
	var gone []Change
	for _, o := range cluster.Objects {
		component := o.GetLabels()[object.LabelComponent]
		if !owner.Controls(o) || planned[object.IDOf(o)] || object.OutlivesOwner(o) || o.GetDeletionTimestamp() != nil {
			continue
		}
		if part := parts[component]; part != nil {
			data := o.GetKind() == object.ClaimKind.Kind || part.MayOpenVolume(o) && slices.ContainsFunc(claims, func(claim *unstructured.Unstructured) bool {
				return claim.GetLabels()[object.LabelComponent] == component
			})
			switch {
			case data && part.RetainsData:
				d.Changes = append(d.Changes, Change{Component: component, Kind: o.GetKind(), Name: o.GetName(), Action: apply.Updated, before: o,
					Note: "it is no longer deleted with the DataService"})
				continue
			case data, part.KeepReason != nil && part.KeepReason(o) != "":
				continue
			}
		}
		c := Change{Component: component, Kind: o.GetKind(), Name: o.GetName(), Action: apply.Deleted, before: o}
		if _, hasPods, _ := unstructured.NestedMap(o.Object, "spec", "template"); hasPods {
			c.Note = "its pods are deleted"
		}
		if o.GetKind() == object.ClaimKind.Kind {
			c.Note = "DATA: retention is Delete"
		}
		gone = append(gone, c)
	}
	slices.SortStableFunc(gone, func(a, b Change) int {
		position := 0
		if plan.RemovalOrder != nil {
			position = plan.RemovalOrder(b.Component) - plan.RemovalOrder(a.Component)
		}
		return cmp.Or(position, cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	d.Changes = append(d.Changes, gone...)
}

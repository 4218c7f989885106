// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/halt"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/specfield"
)

// data is what the operator knows of the database's data.
type data struct {
	records  []engine.Record
	doubt    *engine.Doubt
	objects  []*unstructured.Unstructured
	revision string // empty when the objects are as planned
	note     string // what a person should know though nothing is wrong
	serves   bool   // whoever uses the database may run
}

// data looks at the database's volume, record and pods, and decides in which form its objects are planned.
func (k *Kind) data(ds *dsv1.DataService, graph *component.Graph, planned *plan.Plan, all *Databases, in kinds.Inputs) (*data, error) {
	c := graph.Get(component.MySQL)
	if c == nil {
		return &data{}, nil
	}
	d := &guard.Database{
		Name: c.ObjectName, HasVolume: c.Kind == component.StatefulSet || c.Kind == component.Deployment,
		Stopped: ptr.Deref(c.Workload.Replica, 1) == 0,
	}
	live, other, err := lookUp(d, string(c.Kind), in)
	if err != nil {
		return nil, err
	}
	if other == "" && all != nil && all.hasOthers() && !all.IsBarred && !d.Stopped && !halt.Runs(live) {
		if other, err = otherPod(d.Name, in); err != nil { // the cache may lag, and two servers must never run
			return nil, err
		}
	}
	found, isKnown, err := recorded(ds, c, d, planned, other == "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(planned.Components, func(p plan.Component) bool { return p.Name == component.MySQL })
	if i < 0 {
		return found, nil
	}
	objects := planned.Components[i].Objects
	if err := needsAgent(c, live, all, objects); err != nil {
		return nil, err
	}
	if objects, err = guard.KeepBackups(objects, in.Lookup, plan.OwnerOf(ds)); err != nil {
		return nil, err
	}
	if found.objects, found.revision, err = guard.Settle(objects, live, isKnown, plan.OwnerOf(ds)); err != nil {
		return nil, err
	}
	return found, found.stop(d.Name, other, all, plan.OwnerOf(ds))
}

// recorded returns the database's record as it is to be, what is in doubt, and whether its data is known. isAlone reports whether
// there is no pod of another database.
func recorded(ds *dsv1.DataService, c *component.Component, d *guard.Database, planned *plan.Plan, isAlone bool) (found *data, isKnown bool, err error) {
	found, isKnown = &data{serves: isAlone && d.Serves() && d.Doubt() == nil}, true
	if record := d.Recorded(); record != nil {
		if err := isFree(planned, guard.RecordName(d.Name)); err != nil {
			return nil, false, err
		}
		if err := found.record(ds, d, c.MySQL.Storage.Retention, record); err != nil {
			return nil, false, err
		}
	}
	if doubt := d.Doubt(); doubt != nil {
		found.doubt = &engine.Doubt{Culprit: doubt.Culprit, Hold: doubt.Hold}
		isKnown = doubt.Culprit == health.Culprit{}
	}
	return found, isKnown, nil
}

// needsAgent refuses what cannot be done, or not safely, by an operator that does not know the image of its agent.
func needsAgent(c *component.Component, live *unstructured.Unstructured, all *Databases, objects []*unstructured.Unstructured) error {
	const unknown = "the image of the agent, which an operator outside of a pod does not know: set RELATED_IMAGE_AGENT"
	switch {
	case !guard.IsUnknown(objects):
		return nil
	case c.MySQL.RestoreFrom != nil && live == nil:
		return mistake(specfield.Mistake(c.Path+".restoreFrom", "needs "+unknown+"; without it the database would start empty"))
	case all != nil && all.IsStopping:
		return mistake(specfield.Mistake(c.Path+".name", "is another database than the one in use, and a switch needs "+unknown))
	}
	return nil
}

// stop plans the database without a pod while there is one of another name, and while its record says that it was replaced.
func (d *data) stop(database, other string, all *Databases, owner object.Owner) (err error) {
	switch {
	case other != "":
		all.IsOther = true
		d.note = fmt.Sprintf("waits until Pod %s is gone, which has the database of another name: two servers under one address would share the clients", other)
	case all != nil && all.IsBarred:
		d.note = "waits until its record says that it is the one in use"
	default:
		return nil
	}
	d.doubt = &engine.Doubt{} // not ready, and nothing that a person has to do
	d.objects, err = guard.Stop(d.objects, database, owner)
	return err
}

// lookUp reads what there is of a database: its record and, if it has a volume, the claim, the pods and the workload, which it
// returns; nil for none. other is a pod of a database that has another name, "" for none.
func lookUp(d *guard.Database, workload string, in kinds.Inputs) (live *unstructured.Unstructured, other string, err error) {
	if d.Record, err = in.Lookup("ConfigMap", guard.RecordName(d.Name)); err != nil || !d.HasVolume {
		return nil, "", err
	}
	if d.Claim, err = in.Lookup(object.ClaimKind.Kind, guard.ClaimName(d.Name)); err != nil {
		return nil, "", err
	}
	if live, err = in.Lookup(workload, d.Name); err != nil {
		return nil, "", err
	}
	if d.Pods, err = in.Pods(string(component.MySQL)); err != nil {
		return nil, "", err
	}
	other = d.Part()
	if d.Claim == nil && d.IsClaimNeeded() {
		d.Claim, err = in.LookupLive(object.ClaimKind.Kind, guard.ClaimName(d.Name))
	}
	return live, other, err
}

// isFree refuses a component with a ConfigMap of the record's name.
func isFree(planned *plan.Plan, name string) error {
	for i := range planned.Components {
		c := &planned.Components[i]
		for _, o := range c.Objects {
			if o.GroupVersionKind() == object.ConfigMapKind && o.GetName() == name {
				return mistake(&specfield.Error{Field: c.Path + ".name",
					Message: fmt.Sprintf("ConfigMap %s is what the operator records of the data of spec.mysql; choose another name", name)})
			}
		}
	}
	return nil
}

// record plans the record of the database.
func (d *data) record(ds *dsv1.DataService, database *guard.Database, retention dsv1.RetentionPolicy, content map[string]string) error {
	record := object.Empty(object.ConfigMapKind)
	record.SetName(guard.RecordName(database.Name))
	record.SetNamespace(ds.Namespace)
	owner := plan.OwnerOf(ds)
	labels := owner.Labels(string(component.MySQL))
	labels[object.LabelPartOf] = "dataservice"
	record.SetLabels(labels)
	if err := unstructured.SetNestedStringMap(record.Object, content, "data"); err != nil {
		return fmt.Errorf("record the data of %s: %w", database.Name, err)
	}
	if retention != dsv1.RetentionDelete {
		record.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
	}
	planned := engine.Record{Object: record}
	if database.Record != nil {
		planned.MadeFrom = database.Record.GetResourceVersion()
	}
	d.records = []engine.Record{planned}
	_, err := object.Finish(record, owner)
	return err
}

// guard gives the part of the database the form that was decided.
func (d *data) guard(part *engine.Part) {
	part.Doubt = d.doubt
	if d.note != "" {
		part.Notes = append(part.Notes, d.note)
	}
	if d.objects != nil {
		part.Objects = d.objects
	}
	if d.revision != "" {
		part.Revision = d.revision
	}
}

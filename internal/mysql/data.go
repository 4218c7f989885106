// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// Data is the result of PlanData: the record of a database, the doubt about it, and its adapted objects.
type Data struct {
	Records []reconcile.Record
	// Serves reports whether the services that use the database may run.
	Serves bool

	doubt    *reconcile.Doubt
	objects  []*unstructured.Unstructured
	revision string      // empty if the objects are as planned
	note     health.Note // for users; not a problem
}

// PlanData reads the volume, the record and the pods of the database in use. It decides how the database's objects are
// applied, for example whether pods get the guard, and whether the database has a pod at all. parts are the parts of
// the DataService. all is nil if no database server runs in the cluster.
func PlanData(spec Declared, parts []reconcile.Part, all *Databases, in reconcile.Inputs) (*Data, error) {
	d := &Database{
		Name: spec.Database, HasVolume: spec.Workload == object.StatefulSetKind.Kind || spec.Workload == "Deployment",
		Stopped: ptr.Deref(spec.Replica, 1) == 0,
	}
	if spec.RestoreFrom == nil && spec.ImportFrom == nil && !all.hasOthers() {
		d.FirstReady = spec.FirstReady
	}
	live, other, err := lookUp(d, spec.Workload, in)
	if err != nil {
		return nil, err
	}
	if other == "" && all != nil && all.hasOthers() && !all.IsBarred && !d.Stopped && !halt.MayRun(live) {
		if other, err = otherPod(d.Name, in); err != nil { // not from the cache, which may lag: two servers must never run
			return nil, err
		}
	}
	found, isKnown, err := recorded(spec, d, parts, other == "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(parts, func(p reconcile.Part) bool { return p.Name == Component })
	if i < 0 {
		return found, nil
	}
	objects := parts[i].Objects
	if err := needsAgent(spec, live, all, objects); err != nil {
		return nil, err
	}
	if objects, err = KeepBackups(objects, in.Lookup, spec.Owner); err != nil {
		return nil, err
	}
	if !d.HasVolume { // a server outside of the cluster, or without a volume
		found.objects = objects
		return found, found.stop(d.Name, other, all, spec.Owner)
	}
	if found.objects, found.revision, err = Settle(objects, live, isKnown, d.HasData(), spec.Owner); err != nil {
		return nil, err
	}
	return found, found.stop(d.Name, other, all, spec.Owner)
}

// recorded returns the planned record with the doubt about the database. isKnown is false if the doubt has a message
// for users. isAlone reports whether no pod of another database exists.
func recorded(spec Declared, d *Database, parts []reconcile.Part, isAlone bool) (found *Data, isKnown bool, err error) {
	found, isKnown = &Data{Serves: isAlone && d.Serves() && d.Doubt() == nil, note: d.Younger()}, true
	if record := d.Recorded(); record != nil {
		if err := isFree(parts, RecordName(d.Name)); err != nil {
			return nil, false, err
		}
		if err := found.record(spec, d, record); err != nil {
			return nil, false, err
		}
	}
	if doubt := d.Doubt(); doubt != nil {
		found.doubt = &reconcile.Doubt{Culprit: doubt.Culprit, Hold: doubt.Hold, IsCause: doubt.IsCause}
		isKnown = doubt.Culprit == health.Culprit{}
	}
	return found, isKnown, nil
}

// needsAgent refuses changes that are impossible or unsafe while the agent's image is unknown.
func needsAgent(spec Declared, live *unstructured.Unstructured, all *Databases, objects []*unstructured.Unstructured) error {
	const unknown = "the image of the agent, which an operator outside of a pod does not know: set RELATED_IMAGE_AGENT in the operator's environment"
	switch {
	case !IsUnknown(objects):
		return nil
	case spec.RestoreFrom != nil && live == nil:
		return reconcile.SpecErrorOf(render.FieldError(spec.Path+".restoreFrom", "needs "+unknown+"; without the agent the database would start empty"))
	case spec.ImportFrom != nil && live == nil:
		return reconcile.SpecErrorOf(render.FieldError(spec.Path+".importFrom", "needs "+unknown+"; without the agent the database would start empty"))
	case all != nil && all.IsStopping:
		return reconcile.SpecErrorOf(render.FieldError(spec.Path+".name", "is not the database in use, and a switch needs "+unknown))
	}
	return nil
}

// stop plans the database with 0 replicas in two cases: a pod of another database exists, or the database's record
// names the database that replaced it.
func (d *Data) stop(database, other string, all *Databases, owner object.Owner) (err error) {
	switch {
	case other != "":
		all.IsOther = true
		d.note = health.Info(fmt.Sprintf("waits until Pod %s of the former database is deleted: two servers under one address would share the clients", other))
	case all != nil && all.IsBarred:
		d.note = health.Info("waits until the record of the database shows that this database is in use")
	default:
		return nil
	}
	d.doubt = &reconcile.Doubt{} // not ready, but no user has to act
	d.objects, err = Stop(d.objects, database, owner)
	return err
}

// lookUp reads the record of a database and, if it has a volume, the claim, the pods and the workload. It returns the workload or nil, and
// the name of a pod of another database or "".
func lookUp(d *Database, workload string, in reconcile.Inputs) (live *unstructured.Unstructured, other string, err error) {
	if d.Record, err = in.Lookup("ConfigMap", RecordName(d.Name)); err != nil || !d.HasVolume {
		return nil, "", err
	}
	if d.Claim, err = in.Lookup(object.ClaimKind.Kind, ClaimName(d.Name)); err != nil {
		return nil, "", err
	}
	if live, err = in.Lookup(workload, d.Name); err != nil {
		return nil, "", err
	}
	if d.Pods, err = in.Pods(Component); err != nil {
		return nil, "", err
	}
	other = d.Part()
	if d.Claim == nil && d.IsClaimNeeded() {
		d.Claim, err = in.LookupLive(object.ClaimKind.Kind, ClaimName(d.Name))
	}
	return live, other, err
}

// isFree returns an error if a component of the DataService has a ConfigMap with the record's name.
func isFree(parts []reconcile.Part, name string) error {
	for i := range parts {
		for _, o := range parts[i].Objects {
			if o.GroupVersionKind() == object.ConfigMapKind && o.GetName() == name {
				return reconcile.SpecErrorOf(&render.Error{Field: parts[i].Path + ".name",
					Message: fmt.Sprintf("ConfigMap %s is the record of the data of spec.mysql; choose another name", name)})
			}
		}
	}
	return nil
}

// record adds the record of the database to the plan.
func (d *Data) record(spec Declared, database *Database, content map[string]string) error {
	record := emptyRecord(spec.Owner, database.Name)
	if err := unstructured.SetNestedStringMap(record.Object, content, "data"); err != nil {
		return fmt.Errorf("record the data of %s: %w", database.Name, err)
	}
	if spec.Storage.Retention != dsv1.RetentionDelete {
		record.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
	}
	planned := reconcile.Record{Object: record}
	if database.Record != nil {
		planned.MadeFrom = database.Record.GetResourceVersion()
	}
	d.Records = []reconcile.Record{planned}
	_, err := object.Finish(record, spec.Owner)
	return err
}

// Guard sets the objects, the doubt and the note of d in the part of the database.
func (d *Data) Guard(part *reconcile.Part) {
	part.Doubt = d.doubt
	if d.note != (health.Note{}) {
		part.Notes = append(part.Notes, d.note)
	}
	if d.objects != nil {
		part.Objects = d.objects
	}
	if d.revision != "" {
		part.Revision = d.revision
	}
}

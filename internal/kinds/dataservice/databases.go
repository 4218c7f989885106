// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/switchover"
	"d3os.com/d3os-operator/internal/object"
)

// Databases is what there is of the databases of a DataService, and which of them is in use.
type Databases struct {
	switchover.Verdict

	// Wanted is the name of the one that the spec names.
	Wanted string
	// records are those of all of them, by name; claim is that of the wanted one, nil for none.
	records map[string]*unstructured.Unstructured
	claim   *unstructured.Unstructured

	// Halted are the parts that are to have no pods, and Remains what there still is of them, or of another database.
	Halted  []haltedPart
	Remains []string
	// IsStarting reports whether they get their pods back.
	IsStarting bool
	// IsOther reports whether there is a pod of a database of another name, for which the one in use waits.
	IsOther    bool
	in         kinds.Inputs // of the pass that judged, and takes the step
	generation int64        // of the spec that was judged
	secret     string       // that opens the one in use; "" for the one that its name implies
}

// haltedPart is a part that is to have no pods, with its workloads as they are planned.
type haltedPart struct {
	Name      string
	Workloads []*unstructured.Unstructured
}

// databases finds out which database is in use, where c is the declared one; nil where none runs in the cluster.
func (k *Kind) databases(ds *dsv1.DataService, c *component.Component, in kinds.Inputs) (*Databases, error) {
	if c == nil || c.Kind == component.ThirdParty {
		return nil, nil
	}
	d := &Databases{Wanted: c.ObjectName, in: in, generation: ds.Generation, records: map[string]*unstructured.Unstructured{}}
	running, err := d.look(in)
	if err != nil {
		return nil, err
	}
	hasVolume := c.Kind != component.DaemonSet
	d.judge(c.MySQL, hasVolume, running)
	if d.Active != d.Wanted || d.IsBarred { // seldom, and much depends on it: not from a cache that may lag
		if err := d.lookLive(plan.OwnerOf(ds), in); err != nil {
			return nil, err
		}
		d.judge(c.MySQL, hasVolume, running)
	}
	if d.IsStopping { // services stop only for a consent that was not taken back meanwhile
		if err := d.isCurrent(); err != nil {
			return nil, err
		}
	}
	if d.Active == "" {
		return nil, mistake(errors.New(d.Message))
	}
	if claim, err := in.Lookup(object.ClaimKind.Kind, guard.ClaimName(d.Active)); err != nil || claim == nil {
		return d, err
	} else if secret := claim.GetAnnotations()[object.AnnotationCredentials]; secret != d.Active+"-credentials" {
		d.secret = secret
	}
	return d, nil
}

// look reads the records and the wanted claim, and returns the names of the databases that have a workload.
func (d *Databases) look(in kinds.Inputs) (running []string, err error) {
	for _, kind := range []string{"ConfigMap", "StatefulSet", "Deployment"} {
		found, err := in.List(kind)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if o.GetLabels()[object.LabelComponent] != string(component.MySQL) {
				continue
			}
			if kind == "ConfigMap" {
				if r, _, is := guard.Record(o); is {
					d.records[r.Database] = o
				}
			} else if guard.Runs(o) {
				running = append(running, o.GetName())
			}
		}
	}
	d.claim, err = in.Lookup(object.ClaimKind.Kind, guard.ClaimName(d.Wanted))
	return running, err
}

// lookLive asks the API server for the records of the two databases that a switch is about, and for the wanted claim.
func (d *Databases) lookLive(owner object.Owner, in kinds.Inputs) error {
	for _, database := range []string{d.Active, d.Wanted} {
		if database == "" {
			continue
		}
		live, err := in.LookupLive("ConfigMap", guard.RecordName(database))
		if err != nil {
			return err
		}
		delete(d.records, database)
		if live == nil {
			continue
		}
		if !owner.Names(live) {
			return mistake(fmt.Errorf("ConfigMap %s is not this DataService's, but %s's: spec.mysql.name has to be another one", live.GetName(), object.OwnerText(live)))
		}
		if _, _, is := guard.Record(live); is {
			d.records[database] = live
		}
	}
	live, err := in.LookupLive(object.ClaimKind.Kind, guard.ClaimName(d.Wanted))
	if d.claim = live; live != nil && !owner.Names(live) {
		d.claim = nil
	}
	return err
}

// hasOthers reports whether there is a record of another database than the one in use.
func (d *Databases) hasOthers() bool {
	for database := range d.records {
		if database != d.Active {
			return true
		}
	}
	return false
}

// judge decides from what was read.
func (d *Databases) judge(declared *dsv1.MySQL, hasVolume bool, running []string) {
	f := switchover.Facts{
		Wanted: d.Wanted, Accepted: declared.AcceptLoss, IsRetained: declared.Storage.Retention != dsv1.RetentionDelete, Running: running,
	}
	claimed := ""
	for database, record := range d.records {
		r, uid, _ := guard.Record(record)
		f.Records = append(f.Records, r)
		if database == d.Wanted {
			claimed = uid
		}
	}
	if hasVolume && d.claim != nil && d.claim.GetDeletionTimestamp() == nil && (claimed == "" || claimed == string(d.claim.GetUID())) {
		f.Prepared = &switchover.Claim{UID: string(d.claim.GetUID()), RestoredTo: d.claim.GetAnnotations()[object.AnnotationRestoredTo]}
	}
	d.Verdict = switchover.Judge(f)
}

// inUse returns a DataService with the database that is in use in the place of the one that its spec names. It is the same one
// where nothing differs.
func (k *Kind) inUse(ds *dsv1.DataService, d *Databases) *dsv1.DataService {
	if d == nil {
		return ds
	}
	name, secret := ds.Spec.MySQL.Name, ds.Spec.MySQL.CredentialsSecret
	if d.Active != d.Wanted {
		name = d.Active
	}
	if secret == "" {
		secret = d.secret
	}
	if name == ds.Spec.MySQL.Name && secret == ds.Spec.MySQL.CredentialsSecret {
		return ds
	}
	result, mysql := *ds, *ds.Spec.MySQL
	mysql.Name, mysql.CredentialsSecret = name, secret
	result.Spec.MySQL = &mysql
	return &result
}

// isHaltable reports whether a component may use the database: all services and cron jobs may.
func isHaltable(c *plan.Component) bool {
	return c.Kind != component.ThirdParty && slices.Contains([]string{component.ChartMicroservice, component.ChartCronJob}, c.Chart)
}

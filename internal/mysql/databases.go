// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Component is the name of the database's component in a DataService, and of the part that renders the database.
const Component = "mysql"

// kindDaemonSet is the kind of a database without a volume.
const kindDaemonSet = "DaemonSet"

// Declared is the database that a DataService declares.
type Declared struct {
	*dsv1.MySQL

	Owner      object.Owner
	Generation int64     // of the spec
	Database   string    // its name, which is also the name of the workload
	Path       string    // of the component in the spec
	Workload   string    // its kind; "" if no server runs in the cluster
	FirstReady time.Time // from the status; zero if the status shows no readiness
}

// Databases holds the state of a DataService's databases. One of them is in use.
type Databases struct {
	Verdict

	// Wanted is the name of the database in the spec.
	Wanted string
	// records are the records of all databases, by name. claim is the claim of the wanted database, or nil.
	records map[string]*unstructured.Unstructured
	claim   *unstructured.Unstructured

	// Halted are the parts that should have no pods. Remains names the pods and Jobs that still exist, of these parts
	// and of other databases.
	Halted  []haltedPart
	Remains []string
	// IsStarting reports whether halted parts get their pods again.
	IsStarting bool
	// IsOther reports whether the database in use has no pod yet because a pod of another database still exists.
	IsOther bool
	// Takeover is the change of a single server to several members; nil for none.
	Takeover *Takeover
	// IsLeaving reports whether the pod of a single server must end because a member takes over the server's volume.
	IsLeaving bool
	in        reconcile.Inputs // inputs of the pass that judges and runs the step
	spec      Declared         // the judged spec
	secret    string           // the Secret with the password of the database in use; "" for the default name
}

// haltedPart is a part that should have no pods, and the workloads of the part.
type haltedPart struct {
	Name      string
	Workloads []*unstructured.Unstructured
}

// FindDatabases returns the state of the databases, including the one in use.
func FindDatabases(spec Declared, in reconcile.Inputs) (*Databases, error) {
	d := &Databases{Wanted: spec.Database, in: in, spec: spec, records: map[string]*unstructured.Unstructured{}}
	running, err := d.look(in)
	if err != nil {
		return nil, err
	}
	d.judge(running)
	if d.Active != d.Wanted || d.IsBarred { // rare and critical: do not rely on a cache that may lag
		if err := d.lookLive(in); err != nil {
			return nil, err
		}
		d.judge(running)
	}
	if d.IsStopping { // services stop only if the spec with the consent is still current
		if err := d.isCurrent(); err != nil {
			return nil, err
		}
	}
	if d.Active == "" {
		return nil, reconcile.SpecErrorOf(errors.New(d.Message))
	}
	if claim, err := in.Lookup(object.ClaimKind.Kind, ClaimName(d.Active)); err != nil || claim == nil {
		return d, err
	} else if secret := claim.GetAnnotations()[object.AnnotationCredentials]; secret != d.Active+"-credentials" {
		d.secret = secret
	}
	return d, nil
}

// look reads the records and the wanted claim, and returns the names of databases with a workload.
func (d *Databases) look(in reconcile.Inputs) (running []string, err error) {
	for _, kind := range []string{"ConfigMap", "StatefulSet", "Deployment"} {
		found, err := in.List(kind)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if o.GetLabels()[object.LabelComponent] != Component {
				continue
			}
			if kind == "ConfigMap" {
				if r, _, is := ReadRecord(o); is {
					d.records[r.Database] = o
				}
			} else if HasVolume(o) {
				running = append(running, o.GetName())
			}
		}
	}
	d.claim, err = in.Lookup(object.ClaimKind.Kind, ClaimName(d.Wanted))
	return running, err
}

// lookLive reads the records of both databases of a switch, and the claim of the wanted database, from the API server.
func (d *Databases) lookLive(in reconcile.Inputs) error {
	for _, database := range []string{d.Active, d.Wanted} {
		if database == "" {
			continue
		}
		live, err := in.LookupLive("ConfigMap", RecordName(database))
		if err != nil {
			return err
		}
		delete(d.records, database)
		if live == nil {
			continue
		}
		if !d.spec.Owner.Names(live) {
			return reconcile.SpecErrorOf(fmt.Errorf("ConfigMap %s belongs to %s, not to this DataService: set spec.mysql.name to another name", live.GetName(), object.OwnerText(live)))
		}
		if _, _, is := ReadRecord(live); is {
			d.records[database] = live
		}
	}
	live, err := in.LookupLive(object.ClaimKind.Kind, ClaimName(d.Wanted))
	if d.claim = live; live != nil && !d.spec.Owner.Names(live) {
		d.claim = nil
	}
	return err
}

// hasOthers reports whether a database other than the one in use has a record.
func (d *Databases) hasOthers() bool {
	if d == nil {
		return false
	}
	for database := range d.records {
		if database != d.Active {
			return true
		}
	}
	return false
}

// judge computes the verdict from the objects that were read.
func (d *Databases) judge(running []string) {
	f := Facts{
		Wanted: d.Wanted, Accepted: d.spec.AcceptLoss, IsRetained: d.spec.Storage.Retention != dsv1.RetentionDelete, Running: running,
	}
	claimed := ""
	for database, record := range d.records {
		r, uid, _ := ReadRecord(record)
		f.Records = append(f.Records, r)
		if database == d.Wanted {
			claimed = uid
		}
	}
	if d.spec.Workload != kindDaemonSet && d.claim != nil && d.claim.GetDeletionTimestamp() == nil && (claimed == "" || claimed == string(d.claim.GetUID())) {
		f.Prepared = &Claim{UID: string(d.claim.GetUID()), RestoredTo: d.claim.GetAnnotations()[object.AnnotationRestoredTo]}
	}
	d.Verdict = JudgeSwitch(f)
}

// InUse returns the spec of the database in use. It returns spec itself if spec names that database.
func (d *Databases) InUse(spec *dsv1.MySQL) *dsv1.MySQL {
	if d == nil {
		return spec
	}
	name, secret := spec.Name, spec.CredentialsSecret
	if d.Active != d.Wanted {
		name = d.Active
	}
	if secret == "" {
		secret = d.secret
	}
	if name == spec.Name && secret == spec.CredentialsSecret {
		return spec
	}
	used := *spec
	used.Name, used.CredentialsSecret = name, secret
	return &used
}

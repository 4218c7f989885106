// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// newName is the name of the database that replaces the original database.
const newName = "mysql"

// jobName returns the name of the Job that logs in to the original database. At most one such Job exists.
func jobName(ds string) string { return ds + "-adopt-database" }

// progress is the stage of the copy of the original database. It is derived from the spec and the condition Imported.
type progress int

const (
	// notCopied: spec.mysql does not import the original database.
	notCopied progress = iota
	// copying: spec.mysql imports the original database, and the services use the original database.
	copying
	// refused: the cut-over was requested, and the copy differs from the original database. The services still use the original database.
	refused
	// cuttingOver: the cut-over was requested. The services may use the new database at any time.
	cuttingOver
	// finished: the new database is in use.
	finished
)

func progressOf(ds *unstructured.Unstructured) progress {
	from, found, _ := unstructured.NestedMap(ds.Object, "spec", "mysql", "importFrom")
	secret, _, _ := unstructured.NestedString(from, "credentialsSecret", "name")
	if !found || from["host"] != mysqlName || secret != accountName(ds.GetName()) {
		return notCopied
	}
	status, reason, _ := imported(ds)
	switch {
	case status == "True":
		return finished
	case from["cutOver"] != true:
		return copying
	case reason == string(contract.ReasonMismatch):
		return refused
	}
	return cuttingOver
}

// imported returns the condition Imported of the latest generation; "" for none.
func imported(ds *unstructured.Unstructured) (status, reason, message string) {
	seen, _, _ := unstructured.NestedInt64(ds.Object, "status", "observedGeneration")
	condition := conditionOf(ds, dsv1.ConditionImported)
	if condition == nil || seen != ds.GetGeneration() {
		return "", "", ""
	}
	return fmt.Sprint(condition["status"]), fmt.Sprint(condition["reason"]), fmt.Sprint(condition["message"])
}

// copied returns spec.mysql with a database that imports the original database. All other fields are the same as before the adoption.
func copied(ds string, before map[string]any) map[string]any {
	mysql := (&unstructured.Unstructured{Object: before}).DeepCopy().Object
	delete(mysql, "thirdParty")
	mysql["name"], mysql["kind"] = newName, "StatefulSet"
	mysql["importFrom"] = map[string]any{"host": mysqlName, "credentialsSecret": map[string]any{"name": accountName(ds)}}
	return mysql
}

// original returns spec.mysql from before the adoption; nil if the original operator did not create the database.
func (o *Observation) original() map[string]any {
	switch {
	case o.Record != nil:
		return o.Record.MySQL
	case isElsewhere(o.DataService):
		return nil
	}
	mysql, _, _ := unstructured.NestedMap(o.DataService.Object, "spec", "mysql")
	return mysql
}

// Data is the part of the report about the database. --copy and --finish run its steps.
type Data struct {
	// State describes the stage of the copy.
	State string `json:"state"`
	// Steps are the remaining steps, in order.
	Steps []string `json:"steps,omitempty"`
	// Objects are the objects that the steps write.
	Objects []Object `json:"objects,omitempty"`
	// Refused lists the reasons that prevent --copy and --finish.
	Refused []string `json:"refused,omitempty"`
}

// judgeData adds the steps that copy the data of the original database to the new database.
func (r *Report) judgeData(o *Observation) {
	if o.original() == nil || len(o.originals()) == 0 && o.Record == nil {
		return
	}
	d := &Data{}
	r.Data = d
	if o.isReplaced() {
		d.State = "spec.mysql declares neither the original database nor its copy: the adoption does not change spec.mysql"
		d.Refused = append(d.Refused, "the services may have written to the database of spec.mysql: copy data of StatefulSet "+mysqlName+" by hand if you need it")
		return
	}
	at := progressOf(o.DataService)
	_, _, message := imported(o.DataService)
	switch at {
	case notCopied:
		d.State = "not copied: only the pod of StatefulSet " + mysqlName + " has the data"
		d.judgeNew(o)
	case copying:
		d.State = "copy in progress; the services use the original database: " + message
	case refused:
		d.State = "the copy was refused, and the services have not moved: " + message
	case cuttingOver:
		d.State = "cut-over requested: " + message
	case finished:
		d.State = "the services use database " + newName
	}
	d.Steps = stepsFrom(at, r.Name)
	if at != finished {
		d.Objects = append(d.Objects, Object{Kind: "Job", Name: jobName(r.Name), Action: Create, Note: "logs in to " + mysqlName + " as root; each step with a login creates this Job, and removes it afterwards"},
			Object{Kind: dsv1.Kind, Name: r.Name, Action: Change, Note: "spec.mysql"}, Object{Kind: "Secret", Name: recordName(r.Name), Action: Change, Note: "records whether writes were stopped"})
		if o.AgentImage == object.UnknownImage {
			d.Refused = append(d.Refused, "the image of the operator is unknown, because you may not read its Deployment: set --agent-image")
		}
	}
}

// stepsFrom returns the remaining steps.
func stepsFrom(at progress, ds string) (steps []string) {
	if at <= notCopied {
		steps = append(steps,
			"--copy: checks whether the server keeps a binary log in row format, and whether writes of root can be stopped. It continues only if they can be stopped",
			"--copy, without such a log: WRITES STOP (SET GLOBAL super_read_only = ON). With a log, writes continue",
			"--copy: spec.mysql becomes StatefulSet "+newName+", which copies all databases and accounts. The services still use the original database")
	}
	if at == refused {
		steps = append(steps, "--copy: starts another copy")
	}
	if at <= refused {
		steps = append(steps, "--finish: WRITES STOP, unless --copy has stopped them", "--finish: spec.mysql.importFrom.cutOver becomes true, which cannot be undone. The import compares all tables. "+
			"If all are equal, the services move to "+newName+". They no longer log in as root: the account in Secret "+newName+"-credentials has all rights on the copied databases")
	}
	if at <= cuttingOver {
		steps = append(steps, "--finish: checks that the original server still accepts no writes")
	}
	return append(steps, "by hand: delete the original database when you no longer need it: StatefulSet, Service and ConfigMap "+mysqlName+", ConfigMap "+mysqlName+"-init, Secrets "+
		accountName(ds)+" and "+recordName(ds))
}

// judgeNew adds the objects of the new database. It refuses if other objects have these names.
func (d *Data) judgeNew(o *Observation) {
	if o.Copy == nil {
		d.Refused = append(d.Refused, o.CopyRefused)
		return
	}
	known := map[object.ID]bool{}
	each := func(plan *reconcile.Plan, do func(planned *unstructured.Unstructured, part string)) {
		for _, secret := range plan.Secrets {
			do(secret, "platform")
		}
		for i := range plan.Parts {
			for _, planned := range plan.Parts[i].Objects {
				do(planned, plan.Parts[i].Name)
			}
		}
	}
	each(o.Plan, func(planned *unstructured.Unstructured, _ string) { known[object.IDOf(planned)] = true })
	each(o.Copy, func(planned *unstructured.Unstructured, part string) {
		id := object.IDOf(planned)
		if known[id] || part != newName && planned.GetKind() != secretKind.Kind {
			return
		}
		if live := o.Live[id]; live != nil && !o.owner().Owns(live) {
			d.Refused = append(d.Refused, fmt.Sprintf("%s %s belongs to %s: remove or rename it", id.Kind, id.Name, holder(o, live)))
		}
		d.Objects = append(d.Objects, Object{Kind: id.Kind, Name: id.Name, Component: newName, Action: Create, Note: "by the operator"})
	})
	claim := "data-" + newName + "-0"
	if o.Claim != nil {
		d.Refused = append(d.Refused, fmt.Sprintf("claim %s exists, with the data of another database or an earlier copy: if you do not need this data, delete the claim, and Secret %s-credentials", claim, newName))
	}
	d.Objects = append(d.Objects, Object{Kind: object.ClaimKind.Kind, Name: claim, Component: newName, Action: Create, Note: "by the StatefulSet; stays when the StatefulSet is deleted"})
	slices.SortStableFunc(d.Objects, func(a, b Object) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
}

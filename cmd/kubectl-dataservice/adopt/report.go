// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Action names the effect of an adoption on an object.
type Action string

// The actions.
const (
	TakeOver Action = "take over"
	Roll     Action = "recreate, roll"
	Create   Action = "create"
	Change   Action = "change"
	Done     Action = "done"
	Leave    Action = "leave"
	Conflict Action = "CONFLICT"
)

// Object is a line of the report.
type Object struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Component string `json:"component,omitempty"`
	// Owner names the owner before the adoption.
	Owner  string `json:"owner,omitempty"`
	Action Action `json:"action"`
	// Pods is the number of pods that the adoption replaces.
	Pods int64 `json:"pods,omitempty"`
	// Touches lists further objects that the adoption of the object writes, as Kind/name.
	Touches []string `json:"touches,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Report lists all changes of an adoption.
type Report struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Objects   []Object `json:"objects"`
	// Database describes the original database.
	Database string `json:"database,omitempty"`
	// Data lists the steps that copy the database; nil if the original operator did not create the database.
	Data *Data `json:"data,omitempty"`
	// Changes are spec fields and settings whose effect changes.
	Changes []string `json:"changes,omitempty"`
	// Refused are the reasons why nothing can be changed, each with the next step.
	Refused []string `json:"refused,omitempty"`
	// Begun reports whether an adoption has begun. It stays true when the adoption is complete.
	Begun bool `json:"begun"`
	// Complete reports whether all objects are adopted.
	Complete bool `json:"complete"`
}

// Judge computes the report. It is a pure function.
func Judge(o *Observation) *Report {
	r := &Report{Name: o.DataService.GetName(), Namespace: o.DataService.GetNamespace(), Begun: o.Record != nil}
	r.judgeSpec(o)
	for _, secret := range o.Plan.Secrets {
		r.judgeObject(o, &reconcile.Part{Name: "platform"}, secret)
	}
	for i := range o.Plan.Parts {
		part := &o.Plan.Parts[i]
		for _, planned := range part.Objects {
			r.judgeObject(o, part, planned)
		}
		r.judgeRoll(o, part)
	}
	r.judgeRest(o)
	r.judgeValues(o)
	r.judgeSurroundings(o)
	r.judgeData(o)
	r.Complete = r.Begun && !slices.ContainsFunc(r.Objects, func(x Object) bool { return x.Action != Done && x.Action != Leave })
	slices.Sort(r.Refused)
	return r
}

// judgeSpec reports the writes to the DataService, the record and the account of the original database.
func (r *Report) judgeSpec(o *Observation) {
	if len(o.originals()) == 0 && o.Record == nil {
		r.Refused = append(r.Refused, "the original operator made no object of DataService "+r.Name+": there is nothing to adopt")
		return
	}
	ds := Object{Kind: dsv1.Kind, Name: r.Name, Action: Change, Note: "spec.paused is true until all objects are adopted"}
	if mysql := elsewhere(o); mysql != nil {
		ds.Note += fmt.Sprintf("; spec.mysql becomes kind ThirdParty at Service %s, with the account in Secret %s", mysqlName, accountName(r.Name))
	}
	r.Objects = append(r.Objects, ds)
	records := []Object{{Kind: "Secret", Name: recordName(r.Name), Note: "holds the spec and the original objects for --undo"}}
	if o.original() != nil {
		records = append(records, Object{Kind: "Secret", Name: accountName(r.Name), Note: "holds root's account of the original database"})
	}
	for _, secret := range records {
		secret.Action = Create
		if o.Record != nil {
			secret.Action = Done
		}
		r.Objects = append(r.Objects, secret)
	}
	if paused, _, _ := unstructured.NestedBool(o.DataService.Object, "spec", "paused"); o.Record != nil && !paused {
		r.Objects[0].Action = Done
	}
}

func (r *Report) judgeObject(o *Observation, part *reconcile.Part, planned *unstructured.Unstructured) {
	live := o.Live[object.IDOf(planned)]
	row := Object{Kind: planned.GetKind(), Name: planned.GetName(), Component: part.Name, Owner: holder(o, live), Action: Create}
	before := o.Record.object(object.IDOf(planned))
	switch {
	case live == nil && before != nil && planned.GetKind() == deploymentKind.Kind:
		row.Action, row.Note = Roll, "the former Deployment was removed, and its pods keep running"
	case live == nil:
	case o.isOriginal(live) && planned.GetKind() == deploymentKind.Kind:
		row.Action = Roll
		row.Pods, _, _ = unstructured.NestedInt64(live.Object, "spec", "replicas")
		for _, set := range controlledBy(o.ReplicaSets, live) {
			row.Touches = append(row.Touches, "ReplicaSet/"+set.GetName())
			for _, pod := range controlledBy(o.Pods, set) {
				row.Touches = append(row.Touches, "Pod/"+pod.GetName())
			}
		}
		slices.Sort(row.Touches)
		row.Note = "one new pod is ready before an old one is removed"
	case o.isOriginal(live):
		row.Action = TakeOver
		if planned.GetKind() == serviceKind.Kind {
			row.Touches = []string{"Service/" + planned.GetName() + probeSuffix}
			row.Note = "the selector changes when all pods have the new labels; Service " + planned.GetName() + probeSuffix + " exists until then"
		}
		r.compareFiles(planned, live)
	case o.owner().Owns(live) && o.Record != nil:
		row.Action = Done
	case o.owner().Owns(live):
		row.Action = TakeOver
	default:
		row.Action = Conflict
		r.refuse("%s %s belongs to %s: rename component %s, or remove that object", row.Kind, row.Name, row.Owner, part.Name)
	}
	r.Objects = append(r.Objects, row)
}

// holder returns the name of a live object's owner.
func holder(o *Observation, live *unstructured.Unstructured) string {
	switch {
	case live == nil:
		return ""
	case o.isOriginal(live):
		return "original operator"
	case o.owner().Owns(live):
		return "DataService " + o.DataService.GetName()
	}
	for _, ref := range live.GetOwnerReferences() {
		return ref.Kind + " " + ref.Name
	}
	if text := object.OwnerText(live); text != "" {
		return text
	}
	return "another owner"
}

func (r *Report) refuse(format string, args ...any) {
	r.Refused = append(r.Refused, fmt.Sprintf(format, args...))
}

// judgeRest adds the original operator's objects that the plan does not contain.
func (r *Report) judgeRest(o *Observation) {
	planned := map[object.ID]bool{}
	for _, part := range o.Plan.Parts {
		for _, p := range part.Objects {
			planned[object.IDOf(p)] = true
		}
	}
	var rest []Object
	for _, live := range o.originals() {
		if planned[object.IDOf(live)] {
			continue
		}
		row := Object{Kind: live.GetKind(), Name: live.GetName(), Component: live.GetLabels()["app"], Owner: "original operator", Action: Leave}
		switch {
		case row.Component == mysqlName || row.Name == mysqlName:
			row.Note = "the database is not changed"
			if row.Kind == "StatefulSet" {
				r.Database = "StatefulSet " + row.Name + ": the data has no volume and is lost when the pod ends: do not restart the pod; copy the data with --copy and --finish"
				if progressOf(o.DataService) == finished {
					r.Database = ""
				}
			}
		case row.Kind == deploymentKind.Kind:
			row.Note = "spec has no component with this Deployment: its pods keep running"
		default:
			row.Note = "the operator does not use it: delete it later"
		}
		rest = append(rest, row)
	}
	slices.SortFunc(rest, func(a, b Object) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	r.Objects = append(r.Objects, rest...)
}

// compareFiles names the files with lines that differ from the original file. It prints no line, because a line may contain a password.
func (r *Report) compareFiles(planned, live *unstructured.Unstructured) {
	if planned.GetKind() != configMapKind.Kind {
		return
	}
	after, _, _ := unstructured.NestedStringMap(planned.Object, "data")
	before, _, _ := unstructured.NestedStringMap(live.Object, "data")
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for name := range names {
		if gone, came := differ(before[name], after[name]); gone+came > 0 {
			r.Changes = append(r.Changes, fmt.Sprintf("ConfigMap %s, file %s: %d lines are removed and %d are added: declare your own settings in the component's config, configFiles or env", planned.GetName(), name, gone, came))
		}
	}
	slices.Sort(r.Changes)
}

// differ counts the lines that only the first text has, and the lines that only the second text has.
func differ(before, after string) (gone, came int) {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[strings.TrimSpace(line)]++
	}
	for line := range strings.Lines(after) {
		count[strings.TrimSpace(line)]--
	}
	for line, n := range count {
		switch {
		case line == "":
		case n > 0:
			gone += n
		default:
			came -= n
		}
	}
	return gone, came
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/history"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// revisions are the numbers of the revisions of a DataService, sorted.
func (e *env) revisions(name string) []int64 {
	e.Helper()
	var numbers []int64
	for _, r := range e.history(name) {
		numbers = append(numbers, r.Number)
	}
	slices.Sort(numbers)
	return numbers
}

func (e *env) history(name string) []*history.Revision {
	e.Helper()
	list := &appsv1.ControllerRevisionList{}
	e.Must(api.List(e.Ctx, list, client.InNamespace(e.Namespace), client.HasLabels{history.Label}))
	var found []*history.Revision
	for i := range list.Items {
		if !metav1.IsControlledBy(&list.Items[i], e.DataService(name)) {
			continue
		}
		r, err := history.Read(&list.Items[i])
		e.Must(err)
		found = append(found, r)
	}
	return found
}

// Each accepted spec is kept by one write, without a read; at rest and after a restart nothing is written; no password is
// in it; what is refused is not kept; and it goes with the DataService.
func TestHistory(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small(fields{"mysql": fields{"kind": "ThirdParty", "image": nil, "storage": nil,
		"thirdParty": fields{"url": "mysql://db.example.com", "username": "u", "password": "hush-hush"}}}))
	e.equal("written at first", asText(op.Since(0, harness.Sent.WritesHistory)), []string{
		fmt.Sprintf("create %s/controllerrevisions/ -> 201", e.Namespace)})
	e.equal("reads", asText(op.Since(0, func(r harness.Sent) bool { return r.Resource == "controllerrevisions" && r.Reads() })), nil)
	if got := e.DataService(name).Status.History; got == nil || got.Generation != 1 || got.ReadyGeneration != 1 {
		t.Errorf("status.history is %+v", got)
	}
	mark := op.Mark()
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	if n := len(op.Since(mark, harness.Sent.WritesHistory)); n != 1 {
		t.Errorf("%d writes to the history for one change", n)
	}
	mark = op.Mark()
	e.Change(name, fields{"auth": fields{"probes": fields{"readyness": fields{"periodSeconds": 1}}}})
	e.condition(name, "Degraded", metav1.ConditionTrue, "InvalidSpec")
	e.Change(name, fields{"paused": true, "auth": fields{"probes": nil}})
	e.condition(name, "Paused", metav1.ConditionTrue, "Paused")
	e.equal("kept while refused or paused", asText(op.Since(mark, harness.Sent.WritesHistory)), nil)
	if got := fmt.Sprint(e.revisions(name)); got != "[1 2]" {
		t.Errorf("revisions %s", got)
	}
	e.ChangeReady(name, fields{"paused": false})
	op.Stop()
	seen := e.reconciled()
	op = e.Start()
	e.Until("it is looked at", func() error { return e.reconciledSince(seen, 1) })
	e.never("something is written after a restart", func() bool { return len(op.Since(0, harness.Sent.WritesHistory)) > 0 })
	for _, r := range e.history(name) {
		text, err := json.Marshal(r.Spec)
		e.Must(err)
		if strings.Contains(string(text), "hush-hush") {
			t.Errorf("revision %d has the password: %s", r.Number, text)
		}
	}
	if got := fmt.Sprint(e.revisions(name)); got != "[1 2 5]" {
		t.Errorf("revisions %s", got)
	}
	ds := e.DataService(name).DeepCopy()
	e.remove(name)
	e.Until("the history goes", func() error {
		list := &appsv1.ControllerRevisionList{}
		e.Must(api.List(e.Ctx, list, client.InNamespace(e.Namespace), client.MatchingLabels{history.Label: string(ds.UID)}))
		return stage.Unless(len(list.Items) == 0, fmt.Sprintf("%d revisions", len(list.Items)))
	})
}

// Ten revisions stay, and the last good one, however many bad ones follow it.
func TestTheLastGoodRevisionStays(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	for i := range 12 {
		generation := e.Change(name, fields{"auth": fields{"image": fmt.Sprintf("registry.example/auth:does-not-exist-%d", i)}})
		e.Until("the change is seen", func() error { return harness.Observed(e.DataService(name), generation) })
	}
	if got := fmt.Sprint(e.revisions(name)); got != "[1 4 5 6 7 8 9 10 11 12 13]" {
		t.Errorf("revisions %s", got)
	}
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	generation := e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v3"}})
	e.Until("the change is seen", func() error { return harness.Observed(e.DataService(name), generation) })
	if got := e.revisions(name); got[0] == 1 || len(got) != history.Limit {
		t.Errorf("revisions %v: the first is good no more than the last", got)
	}
}

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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// ofVersion sets the version of an operator.
func ofVersion(v string) func(*rest.Config, *manager.Options) {
	return func(_ *rest.Config, o *manager.Options) { o.Version = v }
}

// writers returns the versions of the operators that wrote the objects, from the objects' annotations.
func (e *env) writers() []string {
	var found []string
	for _, obj := range e.made() {
		found = append(found, obj.GetAnnotations()[object.AnnotationWriter])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// An operator does not change a DataService if a newer operator has written some of its objects. The status reports this, and an
// operator of the newer version continues.
func TestObjectsOfANewerOperatorAreLeftAlone(t *testing.T) {
	e := parallel(t)
	const older, newer = "1.1.7", "1.1.8"
	op := e.Start(ofVersion(older))
	name := e.CreateReady(small())
	neighbour := e.CreateReady(second("b-"))
	op.Stop()
	op = e.Start(ofVersion(newer))
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.equal("written by", e.writers(), []string{older, newer})
	op.Stop()

	op = e.Start(ofVersion(older))
	says := []string{"Deployment auth", newer, older}
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonNewerOperator, says...)
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonNewerOperator, says...)
	e.condition(name, dsv1.ConditionProgressing, metav1.ConditionFalse, "")
	if err := harness.Mentions(e.DataService(name).Status.Message, says...); err != nil {
		t.Errorf("status.message: %v", err)
	}
	before := versions(e.made()...)
	generation := e.Change(name, fields{"proxy": fields{"replica": 3}, "web": nil})
	e.Must(api.Delete(e.Ctx, harness.Lookup[*corev1.ConfigMap](e.Journal, "proxy").DeepCopy()))
	e.ChangeReady(neighbour, fields{"auth": fields{"replica": 2}}) // allowed: no newer operator has written these objects
	e.Until("the change is seen", func() error {
		return stage.Unless(e.DataService(name).Status.ObservedGeneration == generation, "it is not")
	})
	e.passes(name)
	e.equal("written", asText(op.Since(0, func(r harness.Sent) bool { return r.WritesObject() && r.Name != "b-auth" })), nil)
	delete(before, "ConfigMap/proxy")
	delete(before, "Deployment/b-auth")
	e.equal("objects that have changed", e.touched(before), nil)
	if status := e.DataService(name).Status; len(status.Components) != 6 || status.Ready != "6/6" {
		t.Errorf("the status lacks components: %s of %v", status.Ready, status.Components)
	}
	op.Stop()

	op = e.Start(ofVersion(newer))
	e.Ready(name)
	e.Until("what was left is made up for", func() error {
		proxy := harness.Lookup[*appsv1.Deployment](e.Journal, "proxy")
		return stage.Unless(e.Object("ConfigMap/proxy") != nil && e.Object("Deployment/web") == nil && proxy.Status.ReadyReplicas == 3, "it is not")
	})
	op.Stop()
	e.takenBack(name, older)
}

// takenBack makes an older operator continue in spite of a newer operator's objects: a user removes the version from the objects.
func (e *env) takenBack(name, older string) {
	e.Helper()
	op := e.Start(ofVersion(older))
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonNewerOperator)
	for _, obj := range e.made() {
		e.Must(api.Patch(e.Ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+object.AnnotationWriter+`":null}}}`))))
	}
	e.Ready(name)
	e.equal("object writes", asText(op.Since(0, harness.Sent.WritesObject)), nil)
	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v3"}})
	if writer := harness.Lookup[*appsv1.Deployment](e.Journal, "auth").Annotations[object.AnnotationWriter]; writer != older {
		e.Errorf("auth was written by %q", writer)
	}
}

// A newer operator may create objects of a kind that this operator does not manage. This operator detects no newer writer from such
// objects, and continues. It does not change or remove them; Kubernetes deletes them with the DataService.
func TestObjectOfAKindOfANewerOperator(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start(ofVersion("0.3.0"))
	name := e.CreateReady(small())
	proxy := harness.Lookup[*appsv1.Deployment](e.Journal, "proxy")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: e.Namespace, Name: "proxy", Labels: proxy.Labels, OwnerReferences: proxy.OwnerReferences,
		Annotations: map[string]string{object.AnnotationWriter: "9.0.0", object.AnnotationDigest: "of another plan"},
	}}
	e.Must(api.Create(e.Ctx, account))
	e.ChangeReady(name, fields{"proxy": fields{"image": "registry.example/proxy:v2"}})
	e.ChangeReady(name, fields{"proxy": nil})
	e.Until("proxy goes", func() error {
		return stage.Unless(harness.Lookup[*appsv1.Deployment](e.Journal, "proxy") == nil, "it is still there")
	})
	e.passes(name)
	if get(e, &corev1.ServiceAccount{}, "proxy").ResourceVersion != account.ResourceVersion {
		t.Error("the object was touched")
	}
	e.remove(name)
	e.Until("the object goes with the DataService", func() error {
		err := api.Get(e.Ctx, client.ObjectKeyFromObject(account), account)
		return stage.Unless(apierrors.IsNotFound(err), "it is still there")
	})
}

// revisions returns the numbers of the revisions of a DataService, sorted.
func (e *env) revisions(name string) []int64 {
	e.Helper()
	var numbers []int64
	for _, r := range e.history(name) {
		numbers = append(numbers, r.Number)
	}
	slices.Sort(numbers)
	return numbers
}

func (e *env) history(name string) []*reconcile.Revision {
	e.Helper()
	list := &appsv1.ControllerRevisionList{}
	e.Must(api.List(e.Ctx, list, client.InNamespace(e.Namespace), client.HasLabels{reconcile.Label}))
	var found []*reconcile.Revision
	for i := range list.Items {
		if !metav1.IsControlledBy(&list.Items[i], e.DataService(name)) {
			continue
		}
		r, err := reconcile.Read(&list.Items[i])
		e.Must(err)
		found = append(found, r)
	}
	return found
}

// The operator stores each accepted spec in the history with one write and no read, and without the password. It writes nothing to the
// history after a restart, or for a refused spec. The history is deleted with the DataService.
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
	op = e.Start()
	e.heals(harm{what: "deleted", id: "Service/proxy"}, e.Mark()) // the repair shows that the operator has reconciled the DataService
	e.equal("kept after a restart", asText(op.Since(0, harness.Sent.WritesHistory)), nil)
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
		e.Must(api.List(e.Ctx, list, client.InNamespace(e.Namespace), client.MatchingLabels{reconcile.Label: string(ds.UID)}))
		return stage.Unless(len(list.Items) == 0, fmt.Sprintf("%d revisions", len(list.Items)))
	})
}

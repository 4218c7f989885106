// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// harm is a user's change of an object: a strategic merge patch, or the deletion of the object.
type harm struct{ what, id, patch string }

// edits contains one edit for some kinds, and one edit for each label, annotation and owner by which the operator
// recognizes its objects. Tests of internal/apply show which fields are restored.
var edits = []harm{
	{"image", "Deployment/auth", `{"spec": {"template": {"spec": {"containers": [{"name": "auth", "image": "other:v1"}]}}}}`},
	{"managed-by label", "Deployment/uuc-probe", `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`},
	{"instance label", "ConfigMap/web", `{"metadata": {"labels": {"app.kubernetes.io/instance": null}}}`},
	{"owner", "Service/proxy", `{"metadata": {"ownerReferences": null}}`},
	{"digest", "Deployment/web", `{"metadata": {"annotations": {"d3os-product.com.d3os/digest": null}}}`},
	{"replicas", "StatefulSet/eureka", `{"spec": {"replicas": 0}}`},
	{"suspended", "CronJob/report", `{"spec": {"suspend": true}}`},
	{"external name", "Service/uuc", `{"spec": {"externalName": "example.org"}}`},
	{"added key", "ConfigMap/mysql-dataservice-init", `{"data": {"99-more.sql": "drop database sdh_auth"}}`},
	{"removed key", "Secret/mysql-dataservice-credentials", `{"data": {"password": null}}`},
	{"owner", "Secret/dataservice-sample-platform", `{"metadata": {"ownerReferences": null}}`},
}

// The operator creates a deleted object of any kind again with its former content, and reverts an edit of a declared field. It writes
// nothing else. The benchmark measures the time (make bench).
func TestHarmIsUndone(t *testing.T) {
	e := alone(t)
	op := e.Start()
	name := e.CreateReady(everyKind())
	var harms []harm
	for _, id := range harness.IDs(e.made()) {
		harms = append(harms, harm{what: "deleted", id: id})
	}
	harms = append(harms, edits...)
	for _, h := range harms {
		mark, requests := e.Mark(), op.Mark()
		e.heals(h, mark)
		e.Ready(name)
		e.equal("written after "+h.id+": "+h.what, harness.Objects(op.Since(requests, harness.Sent.WritesObject)), []string{h.id})
	}
}

// heals damages an object and waits until the operator has restored it.
func (e *env) heals(h harm, mark int) {
	e.Helper()
	was := declared(e.Object(h.id))
	object := e.Object(h.id).DeepCopyObject().(client.Object)
	if h.patch == "" {
		e.Must(api.Delete(e.Ctx, object))
	} else {
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(h.patch))
		e.Must(api.Patch(e.Ctx, object, patch, client.FieldOwner("somebody-else")))
	}
	e.Until(h.id+" is as before: "+h.what, func() error {
		harmed := false // the damage must precede the repair in the journal
		for _, c := range e.Since(mark) {
			differs := c.Event == watch.Deleted || declared(c.Object) != was
			switch {
			case c.ID != h.id:
			case differs:
				harmed = true
			case harmed:
				return nil
			}
		}
		if !harmed {
			return errors.New("nothing has changed")
		}
		return errors.New("it has not come back")
	})
}

// declared returns an object without its name, UID and status, and without the fields that controllers add.
func declared(object client.Object) string {
	if object == nil {
		return "(missing)"
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err)
	}
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, "deployment.kubernetes.io/revision")
	delete(annotations, "deprecated.daemonset.template.generation")
	content["metadata"] = fields{"labels": object.GetLabels(), "annotations": annotations, "owners": object.GetOwnerReferences()}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "spec", "clusterIP")
	unstructured.RemoveNestedField(content, "spec", "clusterIPs")
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return string(text)
}

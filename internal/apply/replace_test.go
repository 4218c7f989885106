// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// An object that Kubernetes cannot change in place is deleted and created again. If a StatefulSet gets other volumes,
// its pods keep running. If a workload gets another selector, its pods are deleted with it.
func TestUnchangeableObjectsAreReplaced(t *testing.T) {
	t.Parallel()
	selector := func(t *testing.T, o map[string]any) {
		set(t, o, "earlier", "spec", "selector", "matchLabels", "app")
		set(t, o, "earlier", "spec", "template", "metadata", "labels", "app")
	}
	for name, test := range map[string]struct {
		spec, id string
		earlier  change // changes the planned object to the object of an earlier plan
		how      metav1.DeletionPropagation
	}{
		"volume of a StatefulSet": {"{mysql: {}}", "StatefulSet/mysql-dataservice", func(t *testing.T, o map[string]any) {
			set(t, items(o, "spec", "volumeClaimTemplates")[0], "1Gi", storageRequest...)
		}, metav1.DeletePropagationOrphan},
		"selector of a StatefulSet":  {"{uuc: {kind: StatefulSet, image: x, port: 80}}", "StatefulSet/uuc", selector, metav1.DeletePropagationBackground},
		"selector of a Deployment":   {"{uuc: {kind: Deployment, image: x, port: 80}}", "Deployment/uuc", selector, metav1.DeletePropagationBackground},
		"selector of a DaemonSet":    {"{uuc: {kind: DaemonSet, image: x, port: 80}}", "DaemonSet/uuc", selector, metav1.DeletePropagationBackground},
		"a Service becomes headless": {"{web: {serviceType: Headless}}", "Service/web", removing("spec", "clusterIP"), metav1.DeletePropagationBackground},
		"an immutable ConfigMap": {"{mysql: {}}", "ConfigMap/mysql-dataservice", func(t *testing.T, o map[string]any) {
			set(t, o, true, "immutable")
			set(t, o, "earlier", "data", "earlier")
		}, metav1.DeletePropagationBackground},
		"a headless Service gets an address": {"{web: {serviceType: ClusterIP}}", "Service/web", setting("None", "spec", "clusterIP"), metav1.DeletePropagationBackground},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, test.spec)
			planned := p.planned(test.id)
			earlier := planned.DeepCopy()
			test.earlier(t, earlier.Object)
			earlier.SetAnnotations(map[string]string{object.AnnotationDigest: "earlier"})
			first := p.apply(earlier).Object
			traffic.take(p.ds.Namespace)

			assert.DeepEqual(t, p.apply(planned), Result{Action: Replaced})
			how, uid := deletion(t, p.ds.Namespace)
			assert.Equal(t, how, test.how)
			assert.Equal(t, uid, first.GetUID())
			if how == metav1.DeletePropagationOrphan { // no garbage collector runs here: nothing happens until the object is deleted
				ending := fetch(t, planned)
				await(t, ending)
				assert.Equal(t, p.apply(planned).Action, Waiting)
				assert.Equal(t, len(traffic.take(p.ds.Namespace)), 0)
				ending.SetFinalizers(nil)
				assert.NilError(t, user.Update(t.Context(), ending))
			}
			awaitGone(t, planned)
			again := p.apply(planned)
			assert.Equal(t, again.Action, Created)
			assert.Assert(t, again.AfterReplace)
			p.atRest(planned)

			assert.NilError(t, user.Delete(t.Context(), fetch(t, planned), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			awaitGone(t, planned)
			again = p.apply(planned)
			assert.Equal(t, again.Action, Created)
			assert.Assert(t, !again.AfterReplace, "another writer deleted it")
		})
	}
}

// A StatefulSet keeps its revisionHistoryLimit, because the oldest supported Kubernetes refuses to change it. An
// earlier plan with another limit does not cause a replacement.
func TestTheHistoryOfAStatefulSetIsKept(t *testing.T) {
	t.Parallel()
	p := start(t, "{mysql: {}}")
	planned := p.planned("StatefulSet/mysql-dataservice")
	earlier := planned.DeepCopy()
	set(t, earlier.Object, int64(10), "spec", "revisionHistoryLimit")
	set(t, earlier.Object, int64(7), "spec", "minReadySeconds")
	earlier.SetAnnotations(map[string]string{object.AnnotationDigest: "earlier"})
	p.apply(earlier)
	result := p.apply(planned)
	assert.Equal(t, result.Action, Updated)
	assert.Equal(t, field(t, result.Object, "spec", "revisionHistoryLimit"), int64(10))
	await(t, result.Object)
	p.atRest(planned)
	p.restart()
	p.atRest(planned)
}

// deletion returns the propagation policy and the UID of the only deletion in a namespace.
func deletion(t *testing.T, namespace string) (metav1.DeletionPropagation, types.UID) {
	t.Helper()
	var found []metav1.DeleteOptions
	for _, r := range traffic.take(namespace) {
		if r.method == "DELETE" {
			var o metav1.DeleteOptions
			assert.NilError(t, json.Unmarshal([]byte(r.body), &o))
			found = append(found, o)
		}
	}
	assert.Equal(t, len(found), 1)
	assert.Assert(t, found[0].Preconditions != nil, "the deletion names no UID")
	return *found[0].PropagationPolicy, *found[0].Preconditions.UID
}

// If the API server refuses an invalid value, the running workload is not deleted.
func TestAnInvalidObjectReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{
		"StatefulSet/mysql-dataservice": setting("Never", "spec", "template", "spec", "restartPolicy"), // old API servers validate few other fields of a StatefulSet
		"Deployment/proxy":              setting(int64(-1), "spec", "replicas"),
		"Service/proxy":                 setting("Nonsense", "spec", "type"),
		// This value is invalid and immutable: a new object could not be created.
		"Deployment/eureka": setting("b", "spec", "selector", "matchLabels", "app"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", name)
			before := fetch(t, planned)
			invalid := planned.DeepCopy()
			change(t, invalid.Object)
			set(t, invalid.Object, "new", "metadata", "annotations", object.AnnotationDigest)
			_, err := p.try(invalid)
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, "update "+describe(planned))
			assert.DeepEqual(t, fetch(t, planned), before)
		})
	}
}

// rigid is a client of an API server that changes no object in place.
type rigid struct {
	client.Client
	deleted int
}

func (r *rigid) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return apierrors.NewInvalid(object.ClaimKind.GroupKind(), "any", validation.ErrorList{
		validation.Forbidden(validation.NewPath("spec"), "field is immutable"),
	})
}

func (r *rigid) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	r.deleted++
	return nil
}

// Objects with data or passwords are never deleted and created again, whatever the API server answers.
func TestDataAndPasswordsAreNeverReplaced(t *testing.T) {
	t.Parallel()
	const head = "\nmetadata: {name: a, namespace: b, labels: {app.kubernetes.io/instance: platform, app.kubernetes.io/managed-by: d3os-operator}"
	owner := object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: "b", Name: "platform", UID: "uid"}
	for name, test := range map[string]struct {
		version, kind string
		keep          string // further annotation of the planned object
		deleted       int
	}{
		"a claim":                    {"v1", "PersistentVolumeClaim", "", 0},
		"a claim to be kept":         {"v1", "PersistentVolumeClaim", ", helm.sh/resource-policy: keep", 0},
		"a Secret":                   {"v1", "Secret", "", 0},
		"a Secret to be kept":        {"v1", "Secret", ", helm.sh/resource-policy: keep", 0},
		"a resource of the operator": {"redis.middleware.hc.cn/v1alpha1", "RedisCluster", "", 0},
		"a ConfigMap to be kept":     {"v1", "ConfigMap", ", helm.sh/resource-policy: keep", 0},
		"a ConfigMap":                {"v1", "ConfigMap", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(digest, keep string) *unstructured.Unstructured {
				return parse(t, "apiVersion: "+test.version+"\nkind: "+test.kind+head+", annotations: {d3os-product.com.d3os/digest: "+digest+keep+"}}")
			}
			planned, live := of("new", test.keep), of("old", "")
			live.SetOwnerReferences([]metav1.OwnerReference{{Kind: "DataService", Name: "platform", UID: owner.UID, Controller: ptr.To(true)}})
			c := &rigid{}
			_, err := newApplier(c).Apply(t.Context(), owner, planned, live)
			assert.Equal(t, c.deleted, test.deleted)
			if test.deleted > 0 {
				assert.NilError(t, err)
				return
			}
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, test.kind+" b/a: it cannot be changed in place, and is not deleted")
			assert.ErrorContains(t, err, "save the content of the object, delete the object")
		})
	}
}

// A Secret that a user has made immutable keeps its passwords.
func TestAnImmutableSecretStays(t *testing.T) {
	t.Parallel()
	const id = "Secret/mysql-dataservice-users"
	p, planned := running(t, "{mysql: {users: [{name: a}]}}", id)
	before := edit(t, planned, setting(true, "immutable"))
	p.atRest(planned)
	p.ds.Spec.MySQL.Users = append(p.ds.Spec.MySQL.Users, dsv1.DatabaseUser{Name: "b"})
	_, err := p.try(p.planned(id))
	assert.ErrorContains(t, err, "is not deleted")
	assert.DeepEqual(t, fetch(t, planned), before)
}

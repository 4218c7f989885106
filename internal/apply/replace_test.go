// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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

// A StatefulSet whose claim templates change is deleted without its pods and made anew.
func TestAStatefulSetIsReplacedAroundItsPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {}}")
	const id = "StatefulSet/mysql-dataservice"
	a := New(operator, apiReader, ownTypes, ownVersion)
	first := mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), id)).Object
	traffic.take(namespace)

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	planned := pick(t, objectsOf(t, ds), id)
	result := mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Replaced)
	assert.Assert(t, result.Object == nil)
	policy, uid := deletion(t, namespace)
	assert.Equal(t, policy, metav1.DeletePropagationOrphan)
	assert.Equal(t, uid, first.GetUID())

	// No garbage collector runs here: until it is gone, nothing is done.
	await(t, fetch(t, planned))
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Waiting)
	assert.Equal(t, len(traffic.take(namespace)), 0)
	ending := fetch(t, planned)
	ending.SetFinalizers(nil)
	assert.NilError(t, user.Update(t.Context(), ending))
	awaitGone(t, planned)
	result = mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Created)
	assert.Assert(t, result.Object.GetUID() != first.GetUID())
}

// deletion returns how the one object that was deleted was deleted.
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
	return *found[0].PropagationPolicy, *found[0].Preconditions.UID
}

// A changed selector means other pods: the old ones go with their workload.
func TestAChangedSelectorReplacesTheWorkload(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds := platform(t, namespace, "{uuc: {kind: "+kind+", image: x, port: 80}}")
			planned := pick(t, objectsOf(t, ds), kind+"/uuc")
			earlier := planned.DeepCopy()
			set(t, earlier.Object, "earlier", "spec", "selector", "matchLabels", "app")
			set(t, earlier.Object, "earlier", "spec", "template", "metadata", "labels", "app")
			earlier.SetAnnotations(map[string]string{object.AnnotationDigest: "earlier"})
			a := New(operator, apiReader, ownTypes, ownVersion)
			mustApply(t, a, ownerOf(ds), earlier)
			uid := fetch(t, planned).GetUID()
			traffic.take(namespace)

			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Replaced)
			policy, deleted := deletion(t, namespace)
			assert.Equal(t, policy, metav1.DeletePropagationBackground)
			assert.Equal(t, deleted, uid)
			awaitGone(t, planned)
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Created)
		})
	}
}

// A value that the API server refuses for what it is must not cost the running workload.
func TestAnInvalidObjectReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, obj *unstructured.Unstructured){
		"StatefulSet/mysql-dataservice": func(t *testing.T, o *unstructured.Unstructured) {
			set(t, o.Object, "Never", "spec", "template", "spec", "restartPolicy") // old API servers check little more of it
		},
		"Deployment/proxy": func(t *testing.T, o *unstructured.Unstructured) {
			set(t, o.Object, int64(-1), "spec", "replicas")
		},
		"Service/proxy": func(t *testing.T, o *unstructured.Unstructured) { set(t, o.Object, "Nonsense", "spec", "type") },
		// Invalid and immutable at once: a new one could not be created.
		"Deployment/eureka": func(t *testing.T, o *unstructured.Unstructured) {
			set(t, o.Object, "b", "spec", "selector", "matchLabels", "app")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, ds, planned := running(t, "{proxy: {}, mysql: {}, eureka: {}}", name)
			before := fetch(t, planned)
			invalid := planned.DeepCopy()
			change(t, invalid)
			set(t, invalid.Object, "new", "metadata", "annotations", object.AnnotationDigest)
			_, err := applied(t, a, ownerOf(ds), invalid)
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, "update "+planned.GetKind()+" "+ds.Namespace+"/"+planned.GetName())
			assert.DeepEqual(t, fetch(t, planned), before)
		})
	}
}

// rigid is a client of an API server that changes nothing in place.
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

// What cannot be made anew is never deleted to be created again, whatever the API server says.
func TestDataAndPasswordsAreNeverReplaced(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nmetadata: {name: a, namespace: b, labels: {app.kubernetes.io/instance: platform, app.kubernetes.io/managed-by: d3os-operator}"
	owner := object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: "b", Name: "platform", UID: "uid"}
	for name, test := range map[string]struct {
		kind    string
		keep    string // in the plan
		deleted int
	}{
		"a claim":                         {"PersistentVolumeClaim", "", 0},
		"a claim to be kept":              {"PersistentVolumeClaim", ", helm.sh/resource-policy: keep", 0},
		"a Secret":                        {"Secret", "", 0},
		"a Secret to be kept":             {"Secret", ", helm.sh/resource-policy: keep", 0},
		"what the plan keeps, of no data": {"ConfigMap", ", helm.sh/resource-policy: keep", 0},
		"configuration":                   {"ConfigMap", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := parse(t, head+", annotations: {d3os-product.com.d3os/digest: new"+test.keep+"}}\nkind: "+test.kind)
			live := parse(t, head+", annotations: {d3os-product.com.d3os/digest: old}}\nkind: "+test.kind)
			live.SetOwnerReferences([]metav1.OwnerReference{{Kind: "DataService", Name: "platform", UID: owner.UID, Controller: ptr.To(true)}})
			c := &rigid{}
			_, err := New(c, nil, ownTypes, ownVersion).Apply(t.Context(), owner, planned, live)
			assert.Equal(t, c.deleted, test.deleted)
			if test.deleted > 0 {
				assert.NilError(t, err)
				return
			}
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, test.kind+" b/a: it cannot be changed in place, and is not deleted")
			assert.ErrorContains(t, err, "save what it holds, delete it")
		})
	}
}

// A Secret that a person has made immutable keeps the passwords that it holds.
func TestAnImmutableSecretStays(t *testing.T) {
	t.Parallel()
	const id = "Secret/mysql-dataservice-users"
	a, ds, planned := running(t, "{mysql: {users: [{name: a}]}}", id)
	edit(t, planned, func(o map[string]any) { o["immutable"] = true })
	atRest(t, a, ds, planned)
	before := fetch(t, planned)
	ds.Spec.MySQL.Users = append(ds.Spec.MySQL.Users, dsv1.DatabaseUser{Name: "b"})
	_, err := applied(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), id))
	assert.ErrorContains(t, err, "is not deleted")
	assert.DeepEqual(t, fetch(t, planned), before)
}

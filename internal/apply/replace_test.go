// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/plan"
)

// A StatefulSet whose claim templates change is deleted without its pods and made anew.
func TestAStatefulSetIsReplacedAroundItsPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {}}")
	const id = "StatefulSet/mysql-dataservice"
	a := New(operator, apiReader, ownVersion)
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
			earlier.SetAnnotations(map[string]string{plan.AnnotationDigest: "earlier"})
			a := New(operator, apiReader, ownVersion)
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
	for name, change := range map[string]func(t *testing.T, object *unstructured.Unstructured){
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
			set(t, invalid.Object, "new", "metadata", "annotations", plan.AnnotationDigest)
			_, err := applied(t, a, ownerOf(ds), invalid)
			assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, "update "+planned.GetKind()+" "+ds.Namespace+"/"+planned.GetName())
			assert.DeepEqual(t, fetch(t, planned), before)
		})
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// scaleAs sets the number of pods by way of the scale subresource, as an autoscaler does.
func scaleAs(t *testing.T, manager string, object *unstructured.Unstructured, replicas int64) {
	t.Helper()
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": replicas},
		"metadata": map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()},
	}}
	assert.NilError(t, user.SubResource("scale").Update(t.Context(), object.DeepCopy(), client.WithSubResourceBody(scale), client.FieldOwner(manager)))
}

// The number of pods goes from the plan to an autoscaler and back without a jump.
func TestTheNumberOfPodsIsHandedOver(t *testing.T) {
	t.Parallel()
	const id = "Deployment/web"
	a, ds, _ := running(t, "{web: {replica: 4}}", id)

	ds.Spec.Web.Autoscaling = &dsv1.Autoscaling{Min: 2, Max: 9}
	planned := pick(t, objectsOf(t, ds), id)
	_, found, err := unstructured.NestedFieldNoCopy(planned.Object, "spec", "replicas")
	assert.NilError(t, err)
	assert.Assert(t, !found)
	result := mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, field(t, result.Object, "spec", "replicas"), int64(4))

	scaleAs(t, "autoscaler", planned, 7)
	await(t, fetch(t, planned))
	atRest(t, a, ds, planned)

	// A new revision leaves the number alone as well.
	ds.Spec.Web.Image = "registry.example.com/other:v2"
	planned = pick(t, objectsOf(t, ds), id)
	assert.Equal(t, field(t, mustApply(t, a, ownerOf(ds), planned).Object, "spec", "replicas"), int64(7))

	ds.Spec.Web.Autoscaling, ds.Spec.Web.Replica = nil, ptr.To[int32](3)
	planned = pick(t, objectsOf(t, ds), id)
	assert.Equal(t, field(t, mustApply(t, a, ownerOf(ds), planned).Object, "spec", "replicas"), int64(3))
}

// Kubernetes never takes a Service's address back: it is made anew.
func TestHeadlessServicesAreMadeAnew(t *testing.T) {
	t.Parallel()
	const id = "Service/web"
	a, ds, _ := running(t, "{web: {}}", id)
	for _, kind := range []string{"Headless", "ClusterIP", "Headless", ""} {
		traffic.take(ds.Namespace)
		ds.Spec.Web.ServiceType = kind
		planned := pick(t, objectsOf(t, ds), id)
		result := mustApply(t, a, ownerOf(ds), planned)
		assert.Equal(t, result.Action, Replaced, kind)
		policy, _ := deletion(t, ds.Namespace)
		assert.Equal(t, policy, metav1.DeletePropagationBackground)
		awaitGone(t, planned)
		result = mustApply(t, a, ownerOf(ds), planned)
		assert.Equal(t, result.Action, Created)
		address := field(t, result.Object, "spec", "clusterIP")
		assert.Equal(t, address == "None", kind == "Headless", "%v", address)
		assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
	}
}

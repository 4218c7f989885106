// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
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
	p, _ := running(t, "{web: {replica: 4}}", id)
	pods := func() any { return field(t, p.apply(p.planned(id)).Object, "spec", "replicas") }

	p.ds.Spec.Web.Autoscaling = &dsv1.Autoscaling{Min: 2, Max: 9}
	planned := p.planned(id)
	_, found, err := unstructured.NestedFieldNoCopy(planned.Object, "spec", "replicas")
	assert.NilError(t, err)
	assert.Assert(t, !found)
	assert.Equal(t, pods(), int64(4))

	scaleAs(t, "autoscaler", planned, 7)
	await(t, fetch(t, planned))
	p.atRest(planned)

	// A new revision leaves the number alone as well.
	p.ds.Spec.Web.Image = "registry.example.com/other:v2"
	assert.Equal(t, pods(), int64(7))

	p.ds.Spec.Web.Autoscaling, p.ds.Spec.Web.Replica = nil, ptr.To[int32](3)
	assert.Equal(t, pods(), int64(3))
}

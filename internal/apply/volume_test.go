// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

func TestVolumesGrowAndNeverShrink(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: namespace}, // classes have no namespace
		Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(true),
	}
	assert.NilError(t, user.Create(t.Context(), class))
	ds := platform(t, namespace, "{mysql: {storage: {size: 10Gi, storageClassName: "+class.Name+"}}}")
	small := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	claim := claimOf(t, small, "data-mysql-dataservice-0")
	foreign := claimOf(t, small, "data-mysql-other-0") // of another set

	a := New(operator, apiReader, ownVersion)
	assert.NilError(t, a.GrowVolumes(t.Context(), ownerOf(ds), small))
	assert.DeepEqual(t, writes(namespace), []string{})

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	larger := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	assert.NilError(t, a.GrowVolumes(t.Context(), ownerOf(ds), larger))
	assert.DeepEqual(t, writes(namespace), []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")
	assert.Equal(t, field(t, fetch(t, foreign), storageRequest...), "10Gi")

	assert.NilError(t, a.GrowVolumes(t.Context(), ownerOf(ds), larger))
	assert.NilError(t, a.GrowVolumes(t.Context(), ownerOf(ds), small))
	assert.DeepEqual(t, writes(namespace), []string{})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")

	// A Deployment's claim is an object of the plan, and behaves alike.
	deployed := platform(t, namespace, "{mysql: {kind: Deployment, storage: {size: 30Gi, storageClassName: "+class.Name+"}}}")
	grown := pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0")
	assert.Equal(t, mustApply(t, a, ownerOf(deployed), grown).Action, Updated)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
	deployed.Spec.MySQL.Storage.Size = resource.MustParse("5Gi")
	mustApply(t, a, ownerOf(deployed), pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0"))
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
}

// claimOf does what the controllers of StatefulSets and volumes do: a bound claim.
func claimOf(t *testing.T, set *unstructured.Unstructured, name string) *unstructured.Unstructured {
	t.Helper()
	templates, _, err := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	assert.NilError(t, err)
	claim := &unstructured.Unstructured{Object: templates[0].(map[string]any)}
	claim.SetName(name)
	claim.SetNamespace(set.GetNamespace())
	assert.NilError(t, user.Create(t.Context(), claim))
	claim.Object["status"] = map[string]any{"phase": string(corev1.ClaimBound)}
	assert.NilError(t, user.Status().Update(t.Context(), claim))
	await(t, claim)
	return claim
}

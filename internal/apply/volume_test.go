// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

	a := New(operator, apiReader, ownTypes, ownVersion)
	fit := func(planned *unstructured.Unstructured) []Refusal {
		t.Helper()
		live, err := a.Get(t.Context(), planned)
		assert.NilError(t, err)
		_, refused, err := a.FitVolumes(t.Context(), ownerOf(ds), planned, live)
		assert.NilError(t, err)
		return refused
	}
	assert.Equal(t, len(fit(small)), 0)
	assert.DeepEqual(t, writes(namespace), []string{})

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	larger := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	assert.Equal(t, len(fit(larger)), 0)
	assert.DeepEqual(t, writes(namespace), []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")
	assert.Equal(t, field(t, fetch(t, foreign), storageRequest...), "10Gi")

	assert.Equal(t, len(fit(larger)), 0)
	assert.Equal(t, len(fit(small)), 1, "a volume cannot shrink, and that is said")
	assert.DeepEqual(t, writes(namespace), []string{})
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")

	// A Deployment's claim is an object of the plan, and behaves alike.
	deployed := platform(t, namespace, "{mysql: {kind: Deployment, storage: {size: 30Gi, storageClassName: "+class.Name+"}}}")
	grown := pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0")
	assert.Equal(t, len(fit(grown)), 0)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
	deployed.Spec.MySQL.Storage.Size = resource.MustParse("5Gi")
	smaller := pick(t, objectsOf(t, deployed), "PersistentVolumeClaim/data-mysql-dataservice-0")
	live, err := a.Get(t.Context(), smaller)
	assert.NilError(t, err)
	fitted, refused, err := a.FitVolumes(t.Context(), ownerOf(ds), smaller, live)
	assert.NilError(t, err)
	assert.Equal(t, len(refused), 1)
	mustApply(t, a, ownerOf(deployed), fitted)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "30Gi")
}

// A volume that is there keeps its class and its access mode, which can never change: one that was retained, or restored
// into another class, is used as it is by a Deployment, too.
func TestAVolumeIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(true)}
	assert.NilError(t, user.Create(t.Context(), class))
	claimFor := func(storage string) *unstructured.Unstructured {
		ds := platform(t, namespace, "{mysql: {kind: Deployment, storage: "+storage+"}}")
		return pick(t, objectsOf(t, ds), "PersistentVolumeClaim/data-mysql-dataservice-0")
	}
	ds := platform(t, namespace, "{mysql: {kind: Deployment}}")
	a := New(operator, apiReader, ownTypes, ownVersion)
	mustApply(t, a, ownerOf(ds), claimFor("{storageClassName: "+class.Name+", accessMode: ReadWriteOncePod}"))
	for _, storage := range []string{"{storageClassName: b}", "{storageClassName: b, size: 5Gi}"} {
		planned := claimFor(storage)
		live := fetch(t, planned)
		fitted, _, err := a.FitVolumes(t.Context(), ownerOf(ds), planned, live)
		assert.NilError(t, err)
		mustApply(t, a, ownerOf(ds), fitted)
		assert.Equal(t, field(t, fetch(t, planned), "spec", "storageClassName"), class.Name)
		judged, _ := NewJudge(ownTypes, ownVersion).FitVolumes(planned, live, nil)
		assert.DeepEqual(t, judged.Object["spec"], fitted.Object["spec"])
		modes, _, err := unstructured.NestedStringSlice(fetch(t, planned).Object, "spec", "accessModes")
		assert.NilError(t, err)
		assert.DeepEqual(t, modes, []string{"ReadWriteOncePod"})
	}
}

// H2: a volume whose class cannot grow keeps its size, and the rest of its StatefulSet goes on: it
// is created again, updated, and its size may be set back.
func TestAVolumeThatCannotGrowHoldsNothingBack(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none"}
	assert.NilError(t, user.Create(t.Context(), class))
	ds := platform(t, namespace, "{mysql: {storage: {size: 5Gi, storageClassName: "+class.Name+"}}}")
	const id = "StatefulSet/mysql-dataservice"
	a := New(operator, apiReader, ownTypes, ownVersion)
	apply := func() (Result, []Refusal) {
		t.Helper()
		planned := pick(t, objectsOf(t, ds), id)
		live, err := a.Get(t.Context(), planned)
		assert.NilError(t, err)
		planned, refused, err := a.FitVolumes(t.Context(), ownerOf(ds), planned, live)
		assert.NilError(t, err)
		result, err := a.Apply(t.Context(), ownerOf(ds), planned, live)
		assert.NilError(t, err)
		if result.Object != nil {
			await(t, result.Object)
		}
		return result, refused
	}
	first, _ := apply()
	claim := claimOf(t, pick(t, objectsOf(t, ds), id), "data-mysql-dataservice-0")
	writes(namespace)

	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	result, refused := apply()
	assert.Equal(t, result.Action, Updated, "the digest of the new plan")
	assert.Equal(t, result.Object.GetUID(), first.Object.GetUID())
	assert.Equal(t, len(refused), 1)
	assert.Assert(t, refused[0].New)
	writes(namespace)

	result, refused = apply()
	assert.Equal(t, result.Action, Unchanged)
	assert.Equal(t, len(refused), 1)
	assert.DeepEqual(t, writes(namespace), []string{}) // it was refused a moment ago

	assert.NilError(t, user.Delete(t.Context(), result.Object))
	awaitGone(t, result.Object)
	result, _ = apply()
	assert.Equal(t, result.Action, Created)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "5Gi")

	ds.Spec.MySQL.Storage.Size = resource.MustParse("5Gi")
	_, refused = apply()
	assert.Equal(t, len(refused), 0)

	// The template stayed at the size of the claim, under the digest of a plan with another size. It follows when the
	// claim gets that size after all.
	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	_, refused = apply()
	assert.Equal(t, len(refused), 1)
	_, _ = apply()
	allowExpansion(t, class, claim)
	assert.NilError(t, user.Patch(t.Context(), withSize(claim, resource.MustParse("20Gi"), storageRequest...), client.MergeFrom(claim)))
	await(t, fetch(t, claim))
	result, refused = apply()
	assert.Equal(t, len(refused), 0)
	assert.Equal(t, result.Action, Replaced)
}

// allowExpansion lets a storage class grow volumes, and returns when the API server knows.
func allowExpansion(t *testing.T, class *storagev1.StorageClass, claim *unstructured.Unstructured) {
	t.Helper()
	class.AllowVolumeExpansion = ptr.To(true)
	assert.NilError(t, user.Update(t.Context(), class))
	assert.NilError(t, wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		larger := withSize(claim, resource.MustParse("20Gi"), storageRequest...)
		return user.Patch(ctx, larger, client.MergeFrom(claim), client.DryRunAll) == nil, nil // its admission knows the class
	}))
}

// A size that was refused is asked for again after five minutes, because no event tells that the class has changed.
func TestARefusedSizeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none"}
	assert.NilError(t, user.Create(t.Context(), class))
	ds := platform(t, namespace, "{mysql: {storage: {size: 5Gi, storageClassName: "+class.Name+"}}}")
	claim := claimOf(t, pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice"), "data-mysql-dataservice-0")
	ds.Spec.MySQL.Storage.Size = resource.MustParse("20Gi")
	larger := pick(t, objectsOf(t, ds), "StatefulSet/mysql-dataservice")
	a := New(operator, apiReader, ownTypes, ownVersion)
	start := time.Now()
	ask := func(after time.Duration, asks bool, again time.Duration) {
		t.Helper()
		a.resizes.now = func() time.Time { return start.Add(after) }
		writes(namespace)
		_, refused, err := a.FitVolumes(t.Context(), ownerOf(ds), larger, nil)
		assert.NilError(t, err)
		assert.Equal(t, len(writes(namespace)) > 0, asks, "after %s", after)
		assert.Equal(t, len(refused) > 0, again > 0, "after %s", after)
		if again > 0 {
			assert.Equal(t, refused[0].Again, again, "after %s", after)
		}
	}
	ask(0, true, 5*time.Minute)
	ask(5*time.Minute-time.Second, false, time.Second)
	ask(5*time.Minute, true, 5*time.Minute)
	allowExpansion(t, class, claim)
	ask(10*time.Minute-time.Second, false, time.Second)
	ask(10*time.Minute, true, 0)
	await(t, fetch(t, claim))
	ask(15*time.Minute, false, 0)
	assert.Equal(t, field(t, fetch(t, claim), storageRequest...), "20Gi")
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

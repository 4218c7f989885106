// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"strings"
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

	"d3os.com/d3os-operator/internal/object"
)

// onClass is a platform with a database on a storage class of its own, whose volumes may grow or not, with this in its spec.
func onClass(t *testing.T, expands bool, mysql string) (*platform, *storagev1.StorageClass) {
	t.Helper()
	p := start(t, "{mysql: {"+mysql+"}}")
	class := &storagev1.StorageClass{ // classes have no namespace
		ObjectMeta: metav1.ObjectMeta{Name: p.ds.Namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: &expands,
	}
	assert.NilError(t, user.Create(t.Context(), class))
	p.ds.Spec.MySQL.Storage.StorageClassName = class.Name
	return p, class
}

// sized returns a planned object with a size of the database's volume.
func (p *platform) sized(size, id string) *unstructured.Unstructured {
	p.Helper()
	p.ds.Spec.MySQL.Storage.Size = resource.MustParse(size)
	return p.planned(id)
}

// fit is FitVolumes in the place of what the cache shows.
func (p *platform) fit(planned *unstructured.Unstructured) (fitted, live *unstructured.Unstructured, refused []Refusal) {
	p.Helper()
	live, err := p.Get(p.Context(), planned)
	assert.NilError(p, err)
	fitted, refused, err = p.FitVolumes(p.Context(), p.owner(), planned, live)
	assert.NilError(p, err)
	return fitted, live, refused
}

const (
	databaseSet   = "StatefulSet/mysql-dataservice"
	databaseClaim = "PersistentVolumeClaim/data-mysql-dataservice-0"
)

func TestVolumesGrowAndNeverShrink(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, true, "")
	claim := claimOf(t, p.sized("10Gi", databaseSet), "data-mysql-dataservice-0")
	foreign := claimOf(t, p.sized("10Gi", databaseSet), "data-mysql-other-0") // of another set
	has := func(claim *unstructured.Unstructured) any { return field(t, fetch(t, claim), storageRequest...) }
	for _, step := range []struct {
		size, has string
		refused   int
		writes    []string
	}{
		{"10Gi", "10Gi", 0, []string{}},
		{"20Gi", "20Gi", 0, []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"}},
		{"20Gi", "20Gi", 0, []string{}},
		{"10Gi", "20Gi", 1, []string{}}, // a volume cannot shrink, and that is said
	} {
		_, _, refused := p.fit(p.sized(step.size, databaseSet))
		assert.Equal(t, len(refused), step.refused, step.size)
		assert.DeepEqual(t, p.writes(), step.writes)
		assert.Equal(t, has(claim), step.has)
		assert.Equal(t, has(foreign), "10Gi")
	}

	// A Deployment's claim is an object of the plan, and behaves alike.
	p.declare("{mysql: {kind: Deployment, storage: {storageClassName: " + class.Name + "}}}")
	_, _, refused := p.fit(p.sized("30Gi", databaseClaim))
	assert.Equal(t, len(refused), 0)
	assert.Equal(t, has(claim), "30Gi")
	fitted, _, refused := p.fit(p.sized("5Gi", databaseClaim))
	assert.Equal(t, len(refused), 1)
	p.apply(fitted)
	assert.Equal(t, has(claim), "30Gi")
}

// A volume that is there keeps its class and its access mode, which can never change: one that was retained, or restored
// into another class, is used as it is by a Deployment, too.
func TestAVolumeIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, true, "kind: Deployment, storage: {accessMode: ReadWriteOncePod}")
	p.apply(p.planned(databaseClaim))
	for _, storage := range []string{"{storageClassName: b}", "{storageClassName: b, size: 5Gi}"} {
		p.declare("{mysql: {kind: Deployment, storage: " + storage + "}}")
		planned := p.planned(databaseClaim)
		fitted, live, _ := p.fit(planned)
		p.apply(fitted)
		judged, _ := NewJudge(ownTypes, ownVersion).FitVolumes(planned, live, nil)
		assert.DeepEqual(t, judged.Object["spec"], fitted.Object["spec"])
		after := fetch(t, planned)
		assert.Equal(t, field(t, after, "spec", "storageClassName"), class.Name)
		assert.DeepEqual(t, field(t, after, "spec", "accessModes"), []any{"ReadWriteOncePod"})
	}
}

// H2: a volume whose class cannot grow keeps its size, and the rest of its StatefulSet goes on: it is updated, and its size
// may be set back. TestVolumeThatCannotGrow (test/behaviour) creates it again as well.
func TestAVolumeThatCannotGrowHoldsNothingBack(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, false, "")
	apply := func(size string) (Action, []Refusal) {
		t.Helper()
		planned, live, refused := p.fit(p.sized(size, databaseSet))
		result, err := p.Apply(t.Context(), p.owner(), planned, live)
		assert.NilError(t, err)
		if result.Object != nil {
			await(t, result.Object)
		}
		return result.Action, refused
	}
	apply("5Gi")
	claim := claimOf(t, p.planned(databaseSet), "data-mysql-dataservice-0")

	action, refused := apply("20Gi")
	assert.Equal(t, action, Updated, "the digest of the new plan")
	assert.Equal(t, len(refused), 1)
	assert.Assert(t, refused[0].New)
	p.writes()
	action, refused = apply("20Gi")
	assert.Equal(t, action, Unchanged)
	assert.Equal(t, len(refused), 1)
	assert.DeepEqual(t, p.writes(), []string{}) // it was refused a moment ago
	_, refused = apply("5Gi")
	assert.Equal(t, len(refused), 0)

	// The template stayed at the size of the claim, under the digest of a plan with another size. It follows when the
	// claim gets that size after all.
	_, refused = apply("20Gi")
	assert.Equal(t, len(refused), 1)
	apply("20Gi")
	allowExpansion(t, class, claim)
	assert.NilError(t, user.Patch(t.Context(), withSize(claim, resource.MustParse("20Gi"), storageRequest...), client.MergeFrom(claim)))
	await(t, fetch(t, claim))
	action, refused = apply("20Gi")
	assert.Equal(t, len(refused), 0)
	assert.Equal(t, action, Replaced)
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

// A size that was refused is asked for again after five minutes, because no event tells that the class has changed. A
// StatefulSet that is created meanwhile gets the size that its volume has.
func TestARefusedSizeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, false, "")
	claim := claimOf(t, p.sized("5Gi", databaseSet), "data-mysql-dataservice-0")
	larger := p.sized("20Gi", databaseSet)
	start := time.Now()
	ask := func(after time.Duration, asks bool, again time.Duration) {
		t.Helper()
		p.resizes.now = func() time.Time { return start.Add(after) }
		p.writes()
		fitted, _, refused := p.fit(larger)
		assert.Equal(t, len(p.writes()) > 0, asks, "after %s", after)
		if again == 0 {
			assert.Equal(t, len(refused), 0, "after %s", after)
			return
		}
		assert.Equal(t, refused[0].Again, again, "after %s", after)
		template := items(fitted.Object, "spec", "volumeClaimTemplates")[0]
		assert.Equal(t, field(t, &unstructured.Unstructured{Object: template}, storageRequest...), "5Gi")
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

// A class that grows file systems offline alone waits for the pod: a person has to know, and the StatefulSet follows all the same.
func TestFileSystemThatWaitsForItsPodIsNamed(t *testing.T) {
	t.Parallel()
	claim := func(status string) *unstructured.Unstructured {
		o := object.Empty(object.ClaimKind)
		o.SetName("data-store-0")
		o.Object["spec"] = map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "20Gi"}}}
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "FileSystemResizePending", "status": status}}}
		return o
	}
	size, refusal, err := (&Applier{}).resize(t.Context(), claim("True"), resource.MustParse("20Gi"))
	assert.NilError(t, err)
	assert.Equal(t, size.String(), "20Gi")
	assert.Assert(t, refusal.Pending && strings.Contains(refusal.Message, "PersistentVolumeClaim data-store-0 waits"), refusal.Message)
	_, refusal, err = (&Applier{}).resize(t.Context(), claim("False"), resource.MustParse("20Gi"))
	assert.NilError(t, err)
	assert.Assert(t, refusal == nil)
}

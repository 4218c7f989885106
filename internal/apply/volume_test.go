// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"net/http"
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

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// onClass returns a platform with this spec of mysql, on a new storage class. expands sets whether the class can expand volumes.
func onClass(t *testing.T, expands bool, mysql string) (*platform, *storagev1.StorageClass) {
	t.Helper()
	p := start(t, "{mysql: {"+mysql+"}}")
	class := &storagev1.StorageClass{ // storage classes have no namespace
		ObjectMeta: metav1.ObjectMeta{Name: p.ds.Namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: &expands,
	}
	assert.NilError(t, user.Create(t.Context(), class))
	p.ds.Spec.MySQL.Storage.StorageClassName = class.Name
	return p, class
}

// sized returns the planned object with this size of the database's volume.
func (p *platform) sized(size, id string) *unstructured.Unstructured {
	p.Helper()
	p.ds.Spec.MySQL.Storage.Size = resource.MustParse(size)
	return p.planned(id)
}

// fit calls FitVolumes with the cached live object.
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
	foreign := claimOf(t, p.sized("10Gi", databaseSet), "data-mysql-other-0") // a claim of another StatefulSet
	has := func(claim *unstructured.Unstructured) any { return field(t, fetch(t, claim), storageRequest...) }
	for _, step := range []struct {
		size, has string
		refused   int
		writes    []string
	}{
		{"10Gi", "10Gi", 0, []string{}},
		{"20Gi", "20Gi", 0, []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"}},
		{"20Gi", "20Gi", 0, []string{}},
		{"10Gi", "20Gi", 1, []string{}}, // a volume cannot shrink; the refusal reports that
	} {
		_, _, refused := p.fit(p.sized(step.size, databaseSet))
		assert.Equal(t, len(refused), step.refused, step.size)
		assert.DeepEqual(t, p.writes(), step.writes)
		assert.Equal(t, has(claim), step.has)
		assert.Equal(t, has(foreign), "10Gi")
	}

	// A Deployment's claim, which is an object of the plan, behaves like a StatefulSet's claim.
	p.declare("{mysql: {kind: Deployment, storage: {storageClassName: " + class.Name + "}}}")
	_, _, refused := p.fit(p.sized("30Gi", databaseClaim))
	assert.Equal(t, len(refused), 0)
	assert.Equal(t, has(claim), "30Gi")
	fitted, _, refused := p.fit(p.sized("5Gi", databaseClaim))
	assert.Equal(t, len(refused), 1)
	p.apply(fitted)
	assert.Equal(t, has(claim), "30Gi")
}

// An existing volume keeps its class and its access mode, because Kubernetes cannot change them. The plan of a
// Deployment may have another class and another mode.
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

// If the class of a volume cannot expand volumes, the volume keeps its size. Its StatefulSet is still updated, and the
// spec may return to the old size. TestVolumeThatCannotGrow (test/behaviour) also recreates the StatefulSet.
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
	assert.Equal(t, action, Updated, "the digest of the new plan is written")
	assert.Equal(t, len(refused), 1)
	assert.Assert(t, refused[0].New)
	p.writes()
	action, refused = apply("20Gi")
	assert.Equal(t, action, Unchanged)
	assert.Equal(t, len(refused), 1)
	assert.DeepEqual(t, p.writes(), []string{}) // the size was refused a moment ago
	_, refused = apply("5Gi")
	assert.Equal(t, len(refused), 0)

	// The template has kept the claim's size, although the new plan's digest was written. As soon as the claim has
	// the new size, the StatefulSet is replaced, and its template gets that size.
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

// allowExpansion allows a storage class to expand volumes. It returns when the API server's admission uses the changed class.
func allowExpansion(t *testing.T, class *storagev1.StorageClass, claim *unstructured.Unstructured) {
	t.Helper()
	class.AllowVolumeExpansion = ptr.To(true)
	assert.NilError(t, user.Update(t.Context(), class))
	assert.NilError(t, wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		larger := withSize(claim, resource.MustParse("20Gi"), storageRequest...)
		return user.Patch(ctx, larger, client.MergeFrom(claim), client.DryRunAll) == nil, nil // the admission uses the changed class
	}))
}

// A refused size is requested again after five minutes, because no event reports a change of the class. A StatefulSet that is created
// during these five minutes gets the size of its volume.
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

// claimOf creates a bound claim, as the controllers of StatefulSets and volumes do.
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

// A storage class without online expansion enlarges the file system when a pod mounts the volume. The refusal reports that. The StatefulSet
// still gets the new size.
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
	assert.Assert(t, refusal.Pending && strings.Contains(refusal.Message, "PersistentVolumeClaim data-store-0 gets its new size when its pod starts again"), refusal.Message)
	_, refusal, err = (&Applier{}).resize(t.Context(), claim("False"), resource.MustParse("20Gi"))
	assert.NilError(t, err)
	assert.Assert(t, refusal == nil)
}

// scaleAs sets the number of pods by the scale subresource, as an autoscaler does.
func scaleAs(t *testing.T, manager string, object *unstructured.Unstructured, replicas int64) {
	t.Helper()
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": replicas},
		"metadata": map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()},
	}}
	assert.NilError(t, user.SubResource("scale").Update(t.Context(), object.DeepCopy(), client.WithSubResourceBody(scale), client.FieldOwner(manager)))
}

// When an autoscaler is declared, the number of pods stays until the autoscaler sets another number. When the
// autoscaler is removed, the declared number applies.
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

	// A new revision does not change the number either.
	p.ds.Spec.Web.Image = "registry.example.com/other:v2"
	assert.Equal(t, pods(), int64(7))

	p.ds.Spec.Web.Autoscaling, p.ds.Spec.Web.Replica = nil, ptr.To[int32](3)
	assert.Equal(t, pods(), int64(3))
}

// If the spec does not set `replica` of a service, any other writer may set the number of pods. If no writer sets the
// number, it is the API server's default.
func TestAnUndeclaredNumberOfPodsIsLeftAlone(t *testing.T) {
	t.Parallel()
	const id = "Deployment/web"
	p, planned := running(t, "{web: {}}", id)
	declare := func(replica *int32, image string) any {
		p.ds.Spec.Web.Replica, p.ds.Spec.Web.Image = replica, "registry.example.com/web:"+image
		result := p.apply(p.planned(id))
		await(t, result.Object)
		return field(t, result.Object, "spec", "replicas")
	}
	assert.Equal(t, field(t, fetch(t, planned), "spec", "replicas"), int64(1))
	for _, pods := range []int64{3, 0, 5} {
		scaleAs(t, "autoscaler", planned, pods)
		await(t, fetch(t, planned))
		p.atRest(planned)
		p.restart()
		p.atRest(planned)
	}
	assert.Equal(t, declare(nil, "v2"), int64(5), "a new revision leaves the number alone")
	assert.Equal(t, declare(ptr.To[int32](3), "v2"), int64(3))
	assert.Equal(t, declare(nil, "v2"), int64(3), "the present number stays")
	assert.Equal(t, declare(nil, "v3"), int64(3))
	assert.Equal(t, declare(ptr.To[int32](0), "v3"), int64(0))
	assert.Equal(t, declare(nil, "v3"), int64(1), "a service that the spec had stopped runs again")
}

// applyUnforeseen applies a planned object without the prediction of Judge, because Judge does not count corrections.
func (p *platform) applyUnforeseen(planned *unstructured.Unstructured) Result {
	p.Helper()
	live, err := p.Get(p.Context(), planned)
	assert.NilError(p, err)
	result, err := p.Apply(p.Context(), p.owner(), planned, live)
	assert.NilError(p, err)
	return result
}

// reads counts the requests that read from the API server.
func reads(calls []call) (n int) {
	for _, c := range calls {
		if c.method == http.MethodGet {
			n++
		}
	}
	return n
}

// If another writer keeps changing the number of pods, the operator corrects it twice, and then names the writer's field manager. The number of
// pods of a database is corrected each time.
func TestAContestedNumberOfPods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec, id      string
		planned, pods int64
		isExact       bool
	}{
		"more":          {"{web: {replica: 2}}", "Deployment/web", 2, 3, false},
		"to zero":       {"{web: {replica: 2}}", "Deployment/web", 2, 0, false},
		"from zero":     {"{web: {replica: 0}}", "Deployment/web", 0, 1, true},
		"with a volume": {"{mysql: {}}", "StatefulSet/mysql-dataservice", 1, 0, true},
		"RedisCluster":  {"{redis: {replicas: 6}}", "RedisCluster/redis", 6, 9, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, test.spec, test.id)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p.contests.now = func() time.Time { return now }
			scaled := func() Result { // an autoscaler sets the number after its period; then the operator applies
				now = now.Add(15 * time.Second)
				scaleAs(t, "autoscaler", planned, test.pods)
				await(t, fetch(t, planned))
				return p.applyUnforeseen(planned)
			}
			for range 2 {
				result := scaled()
				assert.Equal(t, result.Action, Corrected)
				assert.Assert(t, result.Contested == nil)
			}
			traffic.take(p.ds.Namespace)
			result := scaled()
			for range 3 {
				result.Contested = p.applyUnforeseen(planned).Contested
			}
			assert.Equal(t, reads(traffic.take(p.ds.Namespace)), 1, "the field manager is read once after each correction")
			id, writer, manager := strings.Replace(test.id, "/", " ", 1), "autoscaler", " (field manager autoscaler)"
			if test.pods == 0 { // Kubernetes records no field manager of a 0 that the subresource scale sets
				writer, manager = "", ""
			}
			assert.Assert(t, result.Contested != nil)
			assert.ErrorContains(t, result.Contested, fmt.Sprintf("%s: another writer, such as an autoscaler, keeps changing the number of pods%s, so the operator sets it to %d again", id, manager, test.planned))
			if test.isExact {
				assert.Equal(t, result.Action, Corrected)
				await(t, result.Object)
				note := p.apply(planned).Contested
				assert.Equal(t, note.RetryAfter, ofExactNumbers.window, "the note stays after the correction")
				assert.Equal(t, note.Writer, writer, "after the correction, the object no longer has the field manager")
				now = now.Add(ofExactNumbers.window)
				assert.Assert(t, p.apply(planned).Contested == nil)
				return
			}
			assert.Equal(t, result.Action, Unchanged)
			assert.Equal(t, result.Contested.RetryAfter, ofNumbers.first-15*time.Second)
			now = now.Add(ofNumbers.first)
			assert.Equal(t, p.apply(planned).Action, Corrected)
			assert.Equal(t, field(t, fetch(t, planned), "spec", "replicas"), test.planned)
		})
	}
}

// While the number of pods is contested, other fields are corrected.
func TestOtherFieldsBesideAContestedNumberOfPods(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{web: {replica: 2}}", "Deployment/web")
	for range ofNumbers.free + 1 {
		p.contests.wait(numberOf{fetch(t, planned).GetUID()}, ofNumbers)
	}
	scaleAs(t, "autoscaler", planned, 3)
	await(t, edit(t, planned, inContainer(setting("registry.example.com/other:v1", "image"))))
	result := p.applyUnforeseen(planned)
	assert.Equal(t, result.Action, Corrected)
	assert.Assert(t, result.Contested != nil)
	is := fetch(t, planned)
	assert.Equal(t, field(t, is, "spec", "replicas"), int64(3))
	assert.Equal(t, container(is.Object)["image"], container(planned.Object)["image"])
}

// The number of members of an EtcdCluster does not change when the spec stops declaring it. An autoscaler may then
// set it. All other fields keep their planned values. When the spec declares a number again, that number applies.
func TestTheNumberOfMembersIsHandedOver(t *testing.T) {
	t.Parallel()
	const id = "EtcdCluster/etcd"
	p, _ := running(t, "{etcd: {replicas: 5}}", id)
	members := func() any { return field(t, p.apply(p.planned(id)).Object, "spec", "replicas") }
	scaleAs(t, "autoscaler", p.planned(id), 7)
	await(t, fetch(t, p.planned(id)))
	assert.Equal(t, members(), int64(5))

	p.ds.Spec.Etcd.Replicas = nil
	planned := p.planned(id)
	_, found, err := unstructured.NestedFieldNoCopy(planned.Object, "spec", "replicas")
	assert.NilError(t, err)
	assert.Assert(t, !found)
	assert.Equal(t, members(), int64(5))

	scaleAs(t, "autoscaler", planned, 7)
	await(t, fetch(t, planned))
	p.atRest(planned)
	p.ds.Spec.Etcd.Version = "3.6.15" // makes a new revision
	assert.Equal(t, members(), int64(7))

	live := edit(t, planned, setting("debug", "spec", "config", "log-level"))
	await(t, live)
	assert.Equal(t, members(), int64(7))
	_, found, err = unstructured.NestedFieldNoCopy(fetch(t, planned).Object, "spec", "config")
	assert.NilError(t, err)
	assert.Assert(t, !found, "a field that another writer has added is removed")

	p.ds.Spec.Etcd.Replicas = ptr.To[int32](3)
	assert.Equal(t, members(), int64(3))
}

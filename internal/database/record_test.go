// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/databasetest"
)

type record struct {
	Members int
}

var (
	records = database.Records[record]{Annotation: "example.com/record", Suffix: "-kept", Advice: "write it again"}
	owner   = object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Store"}, Namespace: "default", Name: "store", UID: "1",
	}
)

// api holds the objects of a test, and records writes.
type api struct {
	client.Client

	objects map[string]*unstructured.Unstructured
	patches []map[string]any
	deleted []string
}

func (a *api) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o, ok := into.(*unstructured.Unstructured)
	if !ok {
		o = object.Empty(corev1.SchemeGroupVersion.WithKind("Pod"))
	}
	found := a.objects[o.GetKind()+"/"+key.Name]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	if !ok {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into)
	}
	found.DeepCopyInto(o)
	return nil
}

func (a *api) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	content := map[string]any{}
	a.patches = append(a.patches, content)
	return json.Unmarshal(data, &content)
}

func (a *api) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	given := &client.DeleteOptions{}
	given.ApplyOptions(options)
	text := o.GetName() + " " + string(*given.Preconditions.UID)
	if version := given.Preconditions.ResourceVersion; version != nil {
		text += " " + *version
	}
	a.deleted = append(a.deleted, text)
	return nil
}

// Only the owner's record is read. A foreign record is neither used nor written.
func TestRecordsOfOthersAreNotBelieved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   int
	}{
		"kept, without an owner": {func(*unstructured.Unstructured) {}, 3},
		"controlled": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
		}, 3},
		"controlled by an earlier resource of the name": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Store", Name: "store", UID: "0", Controller: ptr.To(true)}})
		}, 0},
		"the labels, not written by the operator": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{records.Annotation: o.GetAnnotations()[records.Annotation]})
		}, 0},
		"of another resource": {func(o *unstructured.Unstructured) {
			o.SetLabels(object.Owner{GroupVersionKind: owner.GroupVersionKind, Name: "other"}.Labels("data"))
		}, 0},
	} {
		live := databasetest.WithRecord(t, databasetest.There{}, records, owner, record{Members: 3})
		kept := live["ConfigMap/store-kept"]
		kept.SetUID("uid")
		kept.SetResourceVersion("7")
		c.change(kept)
		planned, err := records.Planned(live.Inputs(), owner)
		assert.NilError(t, err, name)
		assert.Equal(t, planned.Members, c.want, name)
		a := &api{objects: live}
		observed, at, err := records.Observe(t.Context(), a, owner)
		assert.NilError(t, err, name)
		assert.Equal(t, observed.Members, c.want, name)
		err = records.Write(t.Context(), database.Cluster{Client: a, Live: a, Owner: owner}, at, record{Members: 4})
		if c.want == 0 {
			assert.ErrorContains(t, err, "ConfigMap store-kept is not there yet", name)
			assert.Equal(t, len(a.patches), 0, name)
			continue
		}
		assert.NilError(t, err, name)
		assert.DeepEqual(t, a.patches, []map[string]any{{"metadata": map[string]any{
			"uid": "uid", "resourceVersion": "7", "annotations": map[string]any{records.Annotation: `{"Members":4}`},
		}}})
	}
}

func TestRecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	kept := databasetest.Kept("store-kept", owner)
	kept.SetAnnotations(map[string]string{records.Annotation: "{", object.AnnotationDigest: "digest"})
	_, _, err := records.Observe(t.Context(), &api{objects: databasetest.There{"ConfigMap/store-kept": kept}}, owner)
	assert.ErrorContains(t, err, "annotation example.com/record of ConfigMap store-kept: write it again: ")
	none, at, err := records.Observe(t.Context(), &api{}, owner)
	assert.NilError(t, err)
	assert.Assert(t, none == record{} && at == database.Version{})
}

// An effect changes only the object for which the step was decided.
func TestEffectsNameTheirObject(t *testing.T) {
	t.Parallel()
	claim := object.Empty(object.ClaimKind)
	claim.SetName("data-store-0")
	claim.SetLabels(owner.Labels("data"))
	foreign := claim.DeepCopy()
	foreign.SetName("data-store-1")
	foreign.SetLabels(nil)
	pod := object.Empty(corev1.SchemeGroupVersion.WithKind("Pod"))
	pod.SetName("store-0")
	pod.SetUID("now")
	pod.SetLabels(owner.Labels("data"))
	a := &api{objects: databasetest.There{"PersistentVolumeClaim/data-store-0": claim, "PersistentVolumeClaim/data-store-1": foreign, "Pod/store-0": pod}}
	cache := &api{} // an empty cache
	c := database.Cluster{Client: cache, Live: a, Owner: owner}
	const unnamed = "refused: the step has no UID"
	assert.ErrorContains(t, c.DeleteClaimAt(t.Context(), "data-store-0", database.Version{}), unnamed)
	assert.ErrorContains(t, c.DeleteClaimAt(t.Context(), "data-store-1", database.Version{UID: "uid"}), "claim data-store-1 is not of Store store")
	assert.ErrorContains(t, c.DeletePod(t.Context(), "store-0", ""), unnamed)
	assert.ErrorContains(t, c.DeletePod(t.Context(), "", "uid"), unnamed)
	assert.ErrorContains(t, c.Annotate(t.Context(), claim, database.Version{}, nil), unnamed)
	assert.NilError(t, c.DeleteClaimAt(t.Context(), "data-store-2", database.Version{UID: "uid"}), "the deletion of a missing claim succeeds")
	assert.Equal(t, len(cache.deleted)+len(cache.patches), 0)
	assert.NilError(t, c.DeleteClaimAt(t.Context(), "data-store-0", database.Version{UID: "uid"}))
	assert.NilError(t, c.DeletePod(t.Context(), "store-0", "other"))
	assert.DeepEqual(t, cache.deleted, []string{"data-store-0 uid", "store-0 other"})
	seen, err := c.Pod(t.Context(), "store-0")
	assert.NilError(t, err)
	assert.Equal(t, seen.UID, "now", "a pod that the cache does not show yet")
}

// A pod is not deleted while its claim is being deleted: the data on the claim's volume would be deleted with the pod.
func TestDataDoesNotGoWithAPod(t *testing.T) {
	t.Parallel()
	claim := object.Empty(object.ClaimKind)
	claim.SetName("data-store-0")
	claim.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	a := &api{} // the claim is not in the cache yet
	c := database.Cluster{Client: a, Live: &api{objects: databasetest.There{"PersistentVolumeClaim/data-store-0": claim}}, Owner: owner}
	assert.ErrorContains(t, c.DeletePodWithData(t.Context(), "store-0", database.Version{UID: "uid"}, "data-store-0"), "claim data-store-0 is being deleted, and its data would be lost with the pod")
	assert.NilError(t, c.DeletePodWithData(t.Context(), "store-1", database.Version{UID: "uid", Version: "8"}, "data-store-1"))
	assert.DeepEqual(t, a.deleted, []string{"store-1 uid 8"})
}

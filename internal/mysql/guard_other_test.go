// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
)

func podOf(kind, name string) *corev1.Pod {
	pods := pod(true, `{"id":"0123456789abcdef"}`)
	pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	pods[0].Name = name + "-0"
	return pods[0]
}

// withClaim returns a pod with a claim, like the pod of a server.
func withClaim(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-0"}}}}
	return pod
}

// The pod of another database has another volume, so it proves nothing about this database. A probe of a third party
// proves nothing either, and this database does not wait until the probe ends.
func TestPodsOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		own, wait bool
	}{
		"its own":                     {withClaim(podOf("StatefulSet", "db")), true, false},
		"of another name":             {withClaim(podOf("StatefulSet", "db-restored")), false, true},
		"its own Deployment":          {withClaim(podOf("ReplicaSet", "db-7d9f8c6b5")), true, false},
		"of another Deployment":       {withClaim(podOf("ReplicaSet", "db-restored-7d9f8c6b5")), false, true},
		"no owner, known by label":    {pod(true, "")[0], true, false},
		"a probe of a third party":    {podOf("ReplicaSet", "db-old-probe-7d9f8c6b5"), false, false},
		"a server named like a probe": {withClaim(podOf("ReplicaSet", "db-old-probe-7d9f8c6b5")), false, true},
		"of another set, no claim":    {podOf("StatefulSet", "db-old-probe"), false, true},
		"of another, not a probe":     {podOf("ReplicaSet", "db-old-7d9f8c6b5"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &mysql.Database{Name: "db", HasVolume: true, Claim: claim("1"), Pods: []*corev1.Pod{c.pod}}
			assert.Equal(t, d.Part() != "", c.wait)
			assert.Equal(t, d.Recorded() != nil, c.own, "recorded: %v", d.Recorded())
		})
	}
}

// While a pod of another database exists, the workload is planned without pods. The revision does not change.
func TestStop(t *testing.T) {
	t.Parallel()
	set := object.Empty(object.StatefulSetKind)
	set.SetName("db")
	set.SetNamespace("a")
	owner := object.Owner{Namespace: "a", Name: "platform", UID: "1"}
	assert.NilError(t, unstructured.SetNestedField(set.Object, int64(1), "spec", "replicas"))
	before, err := object.Finish(set, owner)
	assert.NilError(t, err)
	other := claim("1")
	stopped, err := mysql.Stop([]*unstructured.Unstructured{other, set}, "db", owner)
	assert.NilError(t, err)
	assert.Assert(t, stopped[0] == other)
	replicas, _, _ := unstructured.NestedInt64(stopped[1].Object, "spec", "replicas")
	assert.Equal(t, replicas, int64(0))
	replicas, _, _ = unstructured.NestedInt64(set.Object, "spec", "replicas")
	assert.Equal(t, replicas, int64(1))
	assert.Assert(t, object.Digest(stopped[1]) != object.Digest(set))
	bare := object.Empty(object.StatefulSetKind)
	bare.SetName("db")
	bare.SetNamespace("a")
	assert.NilError(t, unstructured.SetNestedField(bare.Object, int64(0), "spec", "replicas"))
	after, err := object.Finish(bare, owner)
	assert.NilError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, object.Digest(stopped[1]), object.Digest(bare))
}

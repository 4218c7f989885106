// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	unschedulable = `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient memory."}]}`
	unbound       = `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."}]}`
	crash         = "CrashLoopBackOff: container auth ended with exit code 137 (OOMKilled)"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	object := &unstructured.Unstructured{}
	assert.NilError(t, object.UnmarshalJSON(data), "%s", text)
	return object
}

const (
	deployment  = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth, generation: 2}, "
	statefulSet = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: auth, generation: 2}, "
	onDelete    = "spec: {updateStrategy: {type: OnDelete}, "
	daemonSet   = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: auth, generation: 2}, "
	available   = `{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}`
)

// assertState compares everything except the culprits, which TestTheCulprit checks. It also checks that each message has a culprit.
func assertState(t *testing.T, got, want State) {
	t.Helper()
	assert.Equal(t, got.Culprit == Culprit{}, got.Problem == "", "%+v", got)
	assert.Equal(t, got.HintCulprit == Culprit{}, got.Hint == "", "%+v", got)
	got.Culprit, got.HintCulprit = Culprit{}, Culprit{}
	assert.DeepEqual(t, got, want)
}

func TestOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object string
		want   State
	}{
		"Deployment, up": {
			deployment + "spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2, conditions: [" + available + "]}}",
			State{Settled: true, Ready: 2, Desired: 2},
		},
		"Deployment, just created": {
			deployment + "spec: {replicas: 2}}",
			State{Desired: 2, Hint: "Deployment auth: Replicas: 0/2"},
		},
		"Deployment, not seen yet": {
			deployment + "spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2, conditions: [" + available + "]}}",
			State{Rolling: true, Ready: 2, Desired: 2, Hint: "Deployment auth: Deployment generation is 2, but latest observed generation is 1"},
		},
		"Deployment, rolling out": {
			deployment + "spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 3, updatedReplicas: 1, availableReplicas: 2, readyReplicas: 2, conditions: [" + available + "]}}",
			State{Rolling: true, Ready: 2, Desired: 2, Hint: "Deployment auth: Updated: 1/2"},
		},
		"Deployment, rolling out its last pod": {
			deployment + "spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: \"True\", reason: ReplicaSetUpdated}]}}",
			State{Rolling: true, Desired: 1, Hint: "Deployment auth: Available: 0/1"},
		},
		"Deployment, being deleted in the foreground": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth, generation: 3, deletionTimestamp: 2026-01-01T00:00:00Z}, spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1, readyReplicas: 1}}",
			State{Ready: 1, Desired: 1, Hint: "Deployment auth: Resource scheduled for deletion"},
		},
		"Deployment, not available": {
			deployment + "spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: [" + available + "]}}",
			State{Desired: 1, Hint: "Deployment auth: Available: 0/1"},
		},
		"Deployment, of nothing": {
			deployment + "spec: {replicas: 0}, status: {observedGeneration: 2, conditions: [" + available + "]}}",
			State{Settled: true},
		},
		"Deployment, out of time": {
			deployment + `spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, unavailableReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: "ReplicaSet auth-1 has timed out progressing."}]}}`,
			State{Desired: 1, Problem: "Deployment auth: Progress deadline exceeded"},
		},
		"Deployment, pods refused": {
			deployment + `spec: {replicas: 1}, status: {observedGeneration: 2, unavailableReplicas: 1, conditions: [{type: Progressing, status: "True", reason: NewReplicaSetCreated}, {type: ReplicaFailure, status: "True", reason: FailedCreate, message: "exceeded quota"}]}}`,
			State{Rolling: true, Desired: 1, Problem: "Deployment auth: FailedCreate: exceeded quota", Hint: "Deployment auth: Replicas: 0/1"},
		},
		"Deployment, pods refused once": {
			deployment + `spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1, readyReplicas: 1, conditions: [` + available + `, {type: ReplicaFailure, status: "False", reason: FailedCreate}]}}`,
			State{Settled: true, Ready: 1, Desired: 1},
		},
		"StatefulSet, up": {
			statefulSet + "spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, currentReplicas: 2, updatedReplicas: 2, readyReplicas: 2, currentRevision: a, updateRevision: a}}",
			State{Settled: true, Ready: 2, Desired: 2},
		},
		"StatefulSet, just created": {
			statefulSet + "spec: {replicas: 1}}",
			State{Desired: 1, Hint: "StatefulSet auth: Replicas: 0/1"},
		},
		"StatefulSet, a pod not ready": {
			statefulSet + "spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, currentReplicas: 2, readyReplicas: 1, currentRevision: a, updateRevision: a}}",
			State{Ready: 1, Desired: 2, Hint: "StatefulSet auth: Ready: 1/2"},
		},
		"StatefulSet, rolling out": {
			statefulSet + "spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, currentReplicas: 1, updatedReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}}",
			State{Rolling: true, Ready: 1, Desired: 2, Hint: "StatefulSet auth: Ready: 1/2"},
		},
		"StatefulSet OnDelete, a pod of an older revision not ready": {
			statefulSet + onDelete + "replicas: 2}, status: {observedGeneration: 2, replicas: 2, readyReplicas: 1, currentRevision: a, updateRevision: b}}",
			State{Ready: 1, Desired: 2, Hint: "StatefulSet auth: Ready: 1/2"},
		},
		"DaemonSet, rolling out": {
			daemonSet + "spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 1, numberAvailable: 2, numberReady: 2}}",
			State{Rolling: true, Ready: 2, Desired: 3, Hint: "DaemonSet auth: Updated: 1/3"},
		},
		"PodDisruptionBudget, not seen yet": {
			"{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: auth, generation: 2}, status: {observedGeneration: 1}}",
			State{Rolling: true, Hint: "PodDisruptionBudget auth: PodDisruptionBudget generation is 2, but latest observed generation is 1"},
		},
		"DaemonSet, just created": {
			daemonSet + "spec: {}}",
			State{Hint: "DaemonSet auth: DaemonSet status.observedGeneration not found"},
		},
		"StatefulSet OnDelete, up, of an older revision": {
			statefulSet + onDelete + "replicas: 1}, status: {observedGeneration: 2, replicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}}",
			State{Settled: true, Ready: 1, Desired: 1},
		},
		"StatefulSet OnDelete, a pod not ready": {
			statefulSet + onDelete + "replicas: 2}, status: {observedGeneration: 2, replicas: 2, readyReplicas: 1, currentRevision: a, updateRevision: a}}",
			State{Ready: 1, Desired: 2, Hint: "StatefulSet auth: Ready: 1/2"},
		},
		"StatefulSet OnDelete, just created": {
			statefulSet + onDelete + "replicas: 1}}",
			State{Desired: 1, Hint: "StatefulSet auth: Ready: 0/1"},
		},
		"StatefulSet OnDelete, not seen yet": {
			statefulSet + onDelete + "replicas: 1}, status: {observedGeneration: 1, replicas: 1, readyReplicas: 1}}",
			State{Rolling: true, Ready: 1, Desired: 1, Hint: "StatefulSet auth: Ready: 1/1"},
		},
		"StatefulSet OnDelete, scaled down": {
			statefulSet + onDelete + "replicas: 0}, status: {observedGeneration: 2, replicas: 1, readyReplicas: 0}}",
			State{Hint: "StatefulSet auth: Ready: 0/0"},
		},
		"StatefulSet OnDelete, being deleted": {
			"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: auth, generation: 2, deletionTimestamp: 2026-01-01T00:00:00Z}, " + onDelete + "replicas: 1}, status: {observedGeneration: 2, replicas: 1, readyReplicas: 1}}",
			State{Ready: 1, Desired: 1, Hint: "StatefulSet auth: Resource scheduled for deletion"},
		},
		"DaemonSet, up": {
			daemonSet + "spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3, numberReady: 3}}",
			State{Settled: true, Ready: 3, Desired: 3},
		},
		"DaemonSet, a pod not ready": {
			daemonSet + "spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2, numberReady: 2}}",
			State{Ready: 2, Desired: 3, Hint: "DaemonSet auth: Available: 2/3"},
		},
		"being deleted": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {replicas: 1}, status: {readyReplicas: 1}}`,
			State{Ready: 1, Desired: 1, Hint: "Deployment auth: Resource scheduled for deletion"},
		},
		"ConfigMap":    {"{apiVersion: v1, kind: ConfigMap, metadata: {name: auth}}", State{Settled: true}},
		"Service":      {"{apiVersion: v1, kind: Service, metadata: {name: auth}, spec: {type: ExternalName, externalName: a}}", State{Settled: true}},
		"claim, bound": {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, status: {phase: Bound}}", State{Settled: true}},
		"claim, waiting": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, status: {phase: Pending}}",
			State{Hint: "PersistentVolumeClaim data: PVC is not Bound. phase: Pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := objectOf(t, test.object)
			before := object.DeepCopy()
			assertState(t, Assess([]*unstructured.Unstructured{object}, nil), test.want)
			assert.DeepEqual(t, object, before)
		})
	}
}

// A component with one unsettled object is not settled, wherever the object is in the list.
func TestAllObjectsCount(t *testing.T) {
	t.Parallel()
	service := objectOf(t, "{apiVersion: v1, kind: Service, metadata: {name: auth}, spec: {type: ExternalName, externalName: a}}")
	claim := objectOf(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, status: {phase: Pending}}")
	up := objectOf(t, statefulSet+"spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, currentReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	want := State{Ready: 1, Desired: 1, Hint: "PersistentVolumeClaim data: PVC is not Bound. phase: Pending"}
	assertState(t, Assess([]*unstructured.Unstructured{claim, service, up}, nil), want)
	assertState(t, Assess([]*unstructured.Unstructured{up, service, claim}, nil), want)
	rolled := objectOf(t, statefulSet+"spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, currentReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	for _, objects := range [][]*unstructured.Unstructured{{rolled, claim}, {claim, rolled}} {
		assert.Assert(t, !Assess(objects, nil).Rolling, "the claim is unsettled, but not because of a rollout")
	}
	assert.Assert(t, Assess([]*unstructured.Unstructured{up, rolled}, nil).Rolling)
	assertState(t, Assess(nil, nil), State{Settled: true})
}

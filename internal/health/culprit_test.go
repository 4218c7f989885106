// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// ownedBy gives a pod a controller of a kind.
func ownedBy(kind string, pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "auth", Controller: ptr.To(true)}}
	return pod
}

func named(name string, pod *corev1.Pod) *corev1.Pod {
	pod.Name = name
	return pod
}

// Evicted pods of a Deployment, and pods of a node that was shut down, are not reported as a problem: the ReplicaSet
// replaces them.
func TestEndedPodsOfAReplicaSetAreNotToBlame(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{
		"evicted":                   `{phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}`,
		"its node was shut down":    `{phase: Failed, reason: Terminated, message: "Pod was terminated in response to imminent node shutdown."}`,
		"with a container's status": `{phase: Failed, containerStatuses: [{name: auth, state: {terminated: {exitCode: 137, reason: Error}}}], conditions: [{type: Ready, status: "False", reason: PodFailed}]}`,
		"ended well":                `{phase: Succeeded, conditions: [{type: Ready, status: "False", reason: PodCompleted}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rolling := objectOf(t, deployment+"spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: ["+available+"]}}")
			ended := ownedBy("ReplicaSet", named("auth-0", podOf(t, status)))
			coming := ownedBy("ReplicaSet", named("auth-1", podOf(t, "{phase: Pending}")))
			got := Assess([]*unstructured.Unstructured{rolling}, []*corev1.Pod{ended, coming})
			assertState(t, got, State{Desired: 1, Hint: "Deployment auth: Available: 0/1"})

			// If the pod that replaces the ended pod has a problem, that problem is reported.
			coming.Status = podOf(t, unschedulable).Status
			got = Assess([]*unstructured.Unstructured{rolling}, []*corev1.Pod{ended, coming})
			assert.Equal(t, got.Problem, "pod auth-1: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.")
		})
	}
	// A StatefulSet does not replace an ended pod before that pod is deleted, so the ended pod is reported.
	assert.Equal(t, PodProblem(ownedBy("StatefulSet", podOf(t, "{phase: Failed, reason: Evicted}"))), "Evicted")
}

// The status of a pod is closer to the cause than the status of its workload. Of several pods, the first by name is reported, so that the
// message stays the same.
func TestTheCulprit(t *testing.T) {
	t.Parallel()
	const (
		pull  = `{containerStatuses: [{name: auth, state: {waiting: {reason: ErrImagePull, message: 'a: not found'}}}]}`
		slow  = `{conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: "containers with unready status: [auth]"}]}`
		late  = "Deployment auth: Progress deadline exceeded"
		pulls = "pod b: ImagePullBackOff: a: not found"
		slows = "pod b: not ready: containers with unready status: [auth]"
	)
	down := objectOf(t, deployment+`spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, unavailableReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`)
	refused := objectOf(t, deployment+`spec: {replicas: 1}, status: {observedGeneration: 2, unavailableReplicas: 1, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "exceeded quota"}]}}`)
	waiting := objectOf(t, statefulSet+"spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, currentReplicas: 2, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	up := objectOf(t, statefulSet+"spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, currentReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	unreadable := objectOf(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth}, spec: {replicas: 1}, status: {conditions: nonsense}}`)
	going := objectOf(t, `{apiVersion: v1, kind: Service, metadata: {name: auth, deletionTimestamp: "2026-01-01T00:00:00Z"}}`)
	pod := func(name, status string) *corev1.Pod { return named(name, podOf(t, status)) }
	deleted := pod("b", pull)
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	pulling, slowly := Culprit{"Pod", "b", "ImagePullBackOff", "a: not found"}, Culprit{"Pod", "b", "ContainersNotReady", "containers with unready status: [auth]"}
	outOfTime := Culprit{"Deployment", "auth", "ProgressDeadlineExceeded", "Progress deadline exceeded"}
	nonsense := Assess([]*unstructured.Unstructured{unreadable}, nil).Culprit.Message
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		pods   []*corev1.Pod
		want   State
	}{
		"out of time":              {down, nil, State{Desired: 1, Problem: late, Culprit: outOfTime}},
		"a pod":                    {down, []*corev1.Pod{pod("b", pull)}, State{Desired: 1, Problem: pulls, Culprit: pulling}},
		"the first pod":            {down, []*corev1.Pod{pod("c", unschedulable), pod("b", pull), pod("a", "{}")}, State{Desired: 1, Problem: pulls, Culprit: pulling}},
		"a problem before a hint":  {down, []*corev1.Pod{pod("a", slow), pod("b", pull)}, State{Desired: 1, Problem: pulls, Culprit: pulling}},
		"a pod that is not ready":  {waiting, []*corev1.Pod{pod("b", slow), pod("a", "{}")}, State{Ready: 1, Desired: 2, Hint: slows, HintCulprit: slowly}},
		"out of time, with a hint": {down, []*corev1.Pod{pod("b", slow)}, State{Desired: 1, Problem: late, Culprit: outOfTime, Hint: slows, HintCulprit: slowly}},
		"a pod without a message":  {down, []*corev1.Pod{pod("b", "{phase: Failed}")}, State{Desired: 1, Problem: "pod b: Failed", Culprit: Culprit{"Pod", "b", "Failed", ""}}},
		"only pods in deletion":    {down, []*corev1.Pod{deleted}, State{Desired: 1, Problem: late, Culprit: outOfTime}},
		"the workload is settled":  {up, []*corev1.Pod{pod("old", pull)}, State{Settled: true, Ready: 1, Desired: 1}},
		"pods refused": {refused, nil, State{Desired: 1, Problem: "Deployment auth: FailedCreate: exceeded quota", Culprit: Culprit{"Deployment", "auth", "FailedCreate", "exceeded quota"},
			Hint: "Deployment auth: Replicas: 0/1", HintCulprit: Culprit{"Deployment", "auth", "LessReplicas", "Replicas: 0/1"}}},
		"not ready":     {waiting, nil, State{Ready: 1, Desired: 2, Hint: "StatefulSet auth: Ready: 1/2", HintCulprit: Culprit{"StatefulSet", "auth", "LessReady", "Ready: 1/2"}}},
		"being deleted": {going, nil, State{Hint: "Service auth: Resource scheduled for deletion", HintCulprit: Culprit{"Service", "auth", "Terminating", "Resource scheduled for deletion"}}},
		"unreadable":    {unreadable, nil, State{Desired: 1, Problem: "Deployment auth: " + nonsense, Culprit: Culprit{"Deployment", "auth", "StatusUnreadable", nonsense}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.DeepEqual(t, Assess([]*unstructured.Unstructured{test.object}, test.pods), test.want)
		})
	}
	assert.Assert(t, strings.HasPrefix(nonsense, "its status cannot be read: "), nonsense)
}

func TestAMissingObjectIsNamed(t *testing.T) {
	t.Parallel()
	up := objectOf(t, statefulSet+"spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, currentReplicas: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	got := Assess([]*unstructured.Unstructured{up}, nil)
	got.AddMissing(objectOf(t, "{apiVersion: v1, kind: Service, metadata: {name: auth}}"))
	assert.DeepEqual(t, got, State{
		Ready: 1, Desired: 1, Hint: "Service auth does not exist", HintCulprit: Culprit{"Service", "auth", "Missing", "it does not exist"},
	})
}

// No condition of a StatefulSet shows why its pods are refused. So the missing pods are reported.
func TestPodsThatAStatefulSetDoesNotCreate(t *testing.T) {
	t.Parallel()
	const text = "StatefulSet auth: 0 of 1 pods exist; `kubectl describe statefulset auth` shows why the other pods cannot be created"
	missing := Culprit{"StatefulSet", "auth", ReasonPodsMissing, "0 of 1 pods exist; `kubectl describe statefulset auth` shows why the other pods cannot be created"}
	for name, test := range map[string]struct {
		object string
		want   bool
	}{
		"none":             {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 2}}", true},
		"not seen yet":     {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 1}}", false},
		"created":          {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1}}", false},
		"no pods declared": {statefulSet + "spec: {replicas: 0}, status: {observedGeneration: 2}}", false},
		"being deleted":    {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: auth, generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {replicas: 1}, status: {observedGeneration: 2}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := Assess([]*unstructured.Unstructured{objectOf(t, test.object)}, nil)
			assert.Equal(t, state.HintCulprit == missing, test.want, "%+v", state)
			assert.Equal(t, state.Hint == text, test.want)
			assert.Equal(t, state.Problem, "")
		})
	}
}

func TestUnready(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		want   bool
	}{
		"starts":        {`{phase: Pending, conditions: [{type: Ready, status: "False"}]}`, false},
		"runs":          {`{phase: Running, conditions: [{type: Ready, status: "False"}]}`, true},
		"is ready":      {`{phase: Running, conditions: [{type: Ready, status: "True"}]}`, false},
		"has a problem": {`{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: auth, state: {waiting: {reason: CrashLoopBackOff}}}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, Unready(podOf(t, test.status)), test.want)
		})
	}
}

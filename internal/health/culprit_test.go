// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
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

// A Deployment that is rolled out while pods of days ago, evicted or of a node that was shut
// down, are still there.
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

			// What is wrong with the pod in its place is found.
			coming.Status = podOf(t, unschedulable).Status
			got = Assess([]*unstructured.Unstructured{rolling}, []*corev1.Pod{ended, coming})
			assert.Equal(t, got.Problem, "pod auth-1: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.")
		})
	}
	// A StatefulSet creates no other pod of that name before this one is gone.
	assert.Equal(t, PodProblem(ownedBy("StatefulSet", podOf(t, "{phase: Failed, reason: Evicted}"))), "Evicted")
}

func TestAnOldCrashIsNotToBlame(t *testing.T) {
	t.Parallel()
	const (
		crashed = `lastState: {terminated: {exitCode: 137, reason: OOMKilled, finishedAt: "2026-01-01T00:00:00Z"}}`
		started = `restartCount: 1, state: {running: {startedAt: "2026-01-01T00:00:10Z"}}`
	)
	since := func(time string) string {
		return `conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: m, lastTransitionTime: "` + time + `"}]`
	}
	for name, test := range map[string]struct{ status, want string }{
		"weeks ago, was ready since":           {"{phase: Running, " + since("2026-01-20T00:00:00Z") + ", containerStatuses: [{name: auth, ready: false, " + started + ", " + crashed + "}]}", ""},
		"just now, not ready since the crash":  {"{phase: Running, " + since("2026-01-01T00:00:00Z") + ", containerStatuses: [{name: auth, ready: false, " + started + ", " + crashed + "}]}", crash},
		"just now, never ready":                {"{phase: Running, " + since("2025-12-31T00:00:00Z") + ", containerStatuses: [{name: auth, ready: false, " + started + ", " + crashed + "}]}", crash},
		"in the second of the start":           {"{phase: Running, " + since("2026-01-01T00:00:10Z") + ", containerStatuses: [{name: auth, ready: false, " + started + ", " + crashed + "}]}", crash},
		"was ready, crashes again":             {"{phase: Running, " + since("2026-01-20T00:00:00Z") + `, containerStatuses: [{name: auth, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, ` + crashed + "}]}", crash},
		"was ready, ended just now":            {"{phase: Running, " + since("2026-01-20T00:00:00Z") + `, containerStatuses: [{name: auth, restartCount: 1, state: {terminated: {exitCode: 137, reason: OOMKilled}}, ` + crashed + "}]}", crash},
		"weeks ago, the node restarted since":  {"{phase: Running, " + since("2026-01-20T00:00:00Z") + `, containerStatuses: [{name: auth, restartCount: 1, state: {waiting: {reason: ContainerCreating}}, ` + crashed + "}]}", ""},
		"weeks ago, another one is not ready":  {"{phase: Running, " + since("2026-01-20T00:00:00Z") + ", containerStatuses: [{name: auth, ready: true, " + started + ", " + crashed + "}, {name: mesh, ready: false, state: {running: {}}}]}", ""},
		"an init container's, long since done": {"{phase: Running, " + since("2026-01-20T00:00:00Z") + `, initContainerStatuses: [{name: init, ready: true, restartCount: 1, state: {terminated: {exitCode: 0}}, ` + crashed + "}], containerStatuses: [{name: auth, ready: false, state: {running: {}}}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, PodProblem(podOf(t, test.status)), test.want)
		})
	}
}

// The text of a crash loop stays the same in all of its states, or each turn would be written.
func TestACrashLoopIsOneProblem(t *testing.T) {
	t.Parallel()
	const last = `lastState: {terminated: {exitCode: 137, reason: OOMKilled, finishedAt: "2026-01-01T00:10:00Z"}}`
	for _, state := range []string{
		`restartCount: 3, state: {terminated: {exitCode: 137, reason: OOMKilled}}, ` + last,
		`restartCount: 3, state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s"}}, ` + last,
		`restartCount: 4, state: {running: {startedAt: "2026-01-01T00:10:40Z"}}, ` + last,
	} {
		pod := podOf(t, `{phase: Running, conditions: [{type: Ready, status: "False", lastTransitionTime: "2026-01-01T00:00:00Z"}], containerStatuses: [{name: auth, ready: false, `+state+`}]}`)
		assert.Equal(t, PodProblem(pod), crash, state)
	}
}

func TestTheCulprit(t *testing.T) {
	t.Parallel()
	down := objectOf(t, deployment+`spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, unavailableReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`)
	refused := objectOf(t, deployment+`spec: {replicas: 1}, status: {observedGeneration: 2, unavailableReplicas: 1, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "exceeded quota"}]}}`)
	waiting := objectOf(t, statefulSet+"spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, currentReplicas: 2, readyReplicas: 1, currentRevision: a, updateRevision: a}}")
	unreadable := objectOf(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: auth}, spec: {replicas: 1}, status: {conditions: nonsense}}`)
	going := objectOf(t, `{apiVersion: v1, kind: Service, metadata: {name: auth, deletionTimestamp: "2026-01-01T00:00:00Z"}}`)
	pull := podOf(t, `{containerStatuses: [{name: auth, state: {waiting: {reason: ErrImagePull, message: 'a: not found'}}}]}`)
	slow := podOf(t, `{conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: "containers with unready status: [auth]"}]}`)
	for name, test := range map[string]struct {
		object        *unstructured.Unstructured
		pods          []*corev1.Pod
		problem, hint Culprit
	}{
		"a pod": {down, []*corev1.Pod{pull}, Culprit{"Pod", "auth-1", "ImagePullBackOff", "a: not found"}, Culprit{}},
		"a pod that is not ready": {waiting, []*corev1.Pod{slow}, Culprit{},
			Culprit{"Pod", "auth-1", "ContainersNotReady", "containers with unready status: [auth]"}},
		"a pod without a message": {down, []*corev1.Pod{podOf(t, "{phase: Failed}")}, Culprit{"Pod", "auth-1", "Failed", ""}, Culprit{}},
		"out of time":             {down, nil, Culprit{"Deployment", "auth", "ProgressDeadlineExceeded", "Progress deadline exceeded"}, Culprit{}},
		"pods refused": {refused, nil, Culprit{"Deployment", "auth", "FailedCreate", "exceeded quota"},
			Culprit{"Deployment", "auth", "LessReplicas", "Replicas: 0/1"}},
		"not ready":  {waiting, nil, Culprit{}, Culprit{"StatefulSet", "auth", "LessReady", "Ready: 1/2"}},
		"going":      {going, nil, Culprit{}, Culprit{"Service", "auth", "Terminating", "Resource scheduled for deletion"}},
		"unreadable": {unreadable, nil, Culprit{"Deployment", "auth", "StatusUnreadable", Assess([]*unstructured.Unstructured{unreadable}, nil).Culprit.Message}, Culprit{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Assess([]*unstructured.Unstructured{test.object}, test.pods)
			assert.DeepEqual(t, got.Culprit, test.problem)
			assert.DeepEqual(t, got.HintCulprit, test.hint)
		})
	}
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

// The kubelet tells by turns of a program that cannot be started; it is one problem, and it names the program.
func TestAProgramThatCannotStartIsNamed(t *testing.T) {
	t.Parallel()
	const (
		message = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/nope": stat /nope: no such file or directory: unknown`
		want    = `StartError: container auth cannot start: exec: "/nope": stat /nope: no such file or directory`
	)
	ended := `terminated: {exitCode: 128, reason: StartError, message: '` + message + `'}`
	for name, test := range map[string]struct{ status, want string }{
		"waiting":        {`state: {waiting: {reason: RunContainerError, message: '` + message + `'}}`, want},
		"ended":          {`state: {` + ended + `}`, want},
		"backing off":    {`state: {waiting: {reason: CrashLoopBackOff, message: m}}, lastState: {` + ended + `}`, want},
		"docker":         {`state: {waiting: {reason: ContainerCannotRun, message: 'no such file'}}`, "StartError: container auth cannot start: no such file"},
		"without a word": {`state: {waiting: {reason: RunContainerError}}`, "StartError: container auth cannot start"},
		"it started, and crashed": {`state: {waiting: {reason: CrashLoopBackOff, message: m}}, lastState: {terminated: {exitCode: 1, reason: Error}}`,
			"CrashLoopBackOff: container auth ended with exit code 1 (Error)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, PodProblem(podOf(t, "{containerStatuses: [{name: auth, "+test.status+"}]}")), test.want)
		})
	}
}

// A StatefulSet has no condition that says why its pods are refused; that they are missing is told.
func TestPodsThatAStatefulSetDoesNotCreate(t *testing.T) {
	t.Parallel()
	const text = "StatefulSet auth: 0 of 1 pods exist; `kubectl describe statefulset auth` says why the others cannot be created"
	missing := Culprit{"StatefulSet", "auth", ReasonPodsMissing, "0 of 1 pods exist; `kubectl describe statefulset auth` says why the others cannot be created"}
	for name, test := range map[string]struct {
		object string
		want   bool
	}{
		"none":         {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 2}}", true},
		"not seen yet": {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 1}}", false},
		"created":      {statefulSet + "spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1}}", false},
		"not wanted":   {statefulSet + "spec: {replicas: 0}, status: {observedGeneration: 2}}", false},
		"going":        {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: auth, generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {replicas: 1}, status: {observedGeneration: 2}}`, false},
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

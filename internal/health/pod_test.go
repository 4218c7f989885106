// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func podOf(t *testing.T, status string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "auth-1"}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(status), &pod.Status), "%s", status)
	return pod
}

// problems lists pod statuses and the problem that is reported for each.
type problems map[string]struct{ status, want string }

func (rows problems) check(t *testing.T) {
	t.Helper()
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, test.status)
			assert.Equal(t, PodProblem(pod), test.want)
			pod.DeletionTimestamp = ptr.To(metav1.Now())
			assert.Equal(t, PodProblem(pod), "", "a pod that is being deleted is not a problem")
			_, hint := podHint(pod)
			assert.Equal(t, hint, "")
		})
	}
}

func TestPodProblem(t *testing.T) {
	t.Parallel()
	const pull = `ImagePullBackOff: image registry/auth:v9: not found`
	problems{
		"nothing known":                        {"{}", ""},
		"pending":                              {"{phase: Pending}", ""},
		"running and ready":                    {`{phase: Running, containerStatuses: [{name: auth, ready: true, restartCount: 3, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]}`, ""},
		"starting":                             {`{phase: Running, containerStatuses: [{name: auth, ready: false, restartCount: 0, state: {running: {}}}]}`, ""},
		"container creating":                   {`{phase: Pending, containerStatuses: [{name: auth, state: {waiting: {reason: ContainerCreating}}}]}`, ""},
		"initializing":                         {`{phase: Pending, containerStatuses: [{name: auth, state: {waiting: {reason: PodInitializing}}}]}`, ""},
		"waiting without a reason":             {`{phase: Pending, containerStatuses: [{name: auth, state: {waiting: {}}}]}`, ""},
		"unschedulable":                        {unschedulable, "Unschedulable: 0/3 nodes are available: 3 Insufficient memory."},
		"volume not bound yet":                 {unbound, ""},
		"scheduled":                            {`{phase: Pending, conditions: [{type: PodScheduled, status: "True"}]}`, ""},
		"gated":                                {`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated, message: m}]}`, ""},
		"failed pull":                          {`{containerStatuses: [{name: auth, state: {waiting: {reason: ErrImagePull, message: 'failed to pull and unpack image "registry/auth:v9": not found'}}}]}`, pull},
		"failed pull, between tries":           {`{containerStatuses: [{name: auth, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "registry/auth:v9": ErrImagePull: failed to pull and unpack image "registry/auth:v9": not found'}}}]}`, pull},
		"failed pull without a message":        {`{containerStatuses: [{name: auth, state: {waiting: {reason: ErrImagePull}}}]}`, "ImagePullBackOff"},
		"failed pull in an init container":     {`{initContainerStatuses: [{name: init, state: {waiting: {reason: ErrImagePull, message: m}}}], containerStatuses: [{name: auth, state: {waiting: {reason: PodInitializing}}}]}`, "ImagePullBackOff: m"},
		"a missing Secret":                     {`{containerStatuses: [{name: auth, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "a" not found'}}}]}`, `CreateContainerConfigError: secret "a" not found`},
		"crash loop, waiting":                  {`{phase: Running, containerStatuses: [{name: auth, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s restarting"}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, crash},
		"crash loop, running":                  {`{phase: Running, containerStatuses: [{name: auth, restartCount: 5, state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, crash},
		"crash loop, ended":                    {`{phase: Running, containerStatuses: [{name: auth, restartCount: 5, state: {terminated: {exitCode: 137, reason: OOMKilled}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, crash},
		"crash, first":                         {`{phase: Running, containerStatuses: [{name: auth, restartCount: 0, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, crash},
		"crash, waiting for the first restart": {`{phase: Running, containerStatuses: [{name: auth, restartCount: 0, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`, crash},
		"crash loop of unknown cause":          {`{containerStatuses: [{name: auth, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}}]}`, "CrashLoopBackOff: container auth keeps exiting"},
		"crash without a reason":               {`{containerStatuses: [{name: auth, state: {terminated: {exitCode: 1}}}]}`, "CrashLoopBackOff: container auth ended with exit code 1"},
		"a server that ends by itself":         {`{containerStatuses: [{name: auth, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 0, reason: Completed}}}]}`, "CrashLoopBackOff: container auth keeps exiting"},
		"init container done":                  {`{initContainerStatuses: [{name: init, ready: true, state: {terminated: {exitCode: 0, reason: Completed}}}], containerStatuses: [{name: auth, ready: true, state: {running: {}}}]}`, ""},
		"init container crashes":               {`{initContainerStatuses: [{name: init, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2, reason: Error}}}], containerStatuses: [{name: auth, state: {waiting: {reason: PodInitializing}}}]}`, "CrashLoopBackOff: container init ended with exit code 2"},
		"init container with a reason":         {`{initContainerStatuses: [{name: guard, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 3, reason: Error, message: '{"reason":"DataLost","message":"the volume is empty: put it back"}'}}}]}`, "DataLost: the volume is empty: put it back"},
		"a reason that is not one word":        {`{containerStatuses: [{name: auth, state: {terminated: {exitCode: 1, message: '{"reason":"no: reason","message":"m"}'}}}]}`, "CrashLoopBackOff: container auth ended with exit code 1"},
		"the end of a log":                     {`{containerStatuses: [{name: etcd, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, message: '{"level":"fatal","msg":"failed to save","error":"no space left on device"}'}}}]}`, "CrashLoopBackOff: failed to save: no space left on device (container etcd, exit code 1)"},
		"the log of a killed container":        {`{containerStatuses: [{name: auth, state: {terminated: {exitCode: 137, reason: OOMKilled, message: 'failed to reach a peer'}}}]}`, crash},
		"a reason without a message":           {`{containerStatuses: [{name: auth, state: {terminated: {exitCode: 1, message: '{"reason":"DataLost"}'}}}]}`, "CrashLoopBackOff: container auth ended with exit code 1"},
		"a container that ended well":          {`{initContainerStatuses: [{name: guard, state: {terminated: {exitCode: 0, message: '{"reason":"DataLost","message":"m"}'}}}]}`, ""},
		"the second container":                 {`{containerStatuses: [{name: auth, ready: true, state: {running: {}}}, {name: mesh, state: {waiting: {reason: InvalidImageName, message: m}}}]}`, "InvalidImageName: m"},
		"evicted":                              {`{phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}`, "Evicted: The node was low on resource: memory."},
		"failed":                               {`{phase: Failed}`, "Failed"},
		"failed with a message":                {`{phase: Failed, message: m}`, "Failed: m"},
	}.check(t)
}

func TestAnOldCrashIsNotToBlame(t *testing.T) {
	t.Parallel()
	const (
		crashed    = `lastState: {terminated: {exitCode: 137, reason: OOMKilled, finishedAt: "2026-01-01T00:00:00Z"}}`
		started    = `restartCount: 1, state: {running: {startedAt: "2026-01-01T00:00:10Z"}}`
		now        = "2026-01-01T00:00:00Z"
		weeksLater = "2026-01-20T00:00:00Z"
	)
	at := func(time, containers string) string {
		return `{phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: m, lastTransitionTime: "` + time + `"}], ` + containers + "}"
	}
	auth := func(state string) string {
		return "containerStatuses: [{name: auth, ready: false, " + state + ", " + crashed + "}]"
	}
	problems{
		"weeks ago, was ready since":           {at(weeksLater, auth(started)), ""},
		"just now, not ready since the crash":  {at(now, auth(started)), crash},
		"just now, never ready":                {at("2025-12-31T00:00:00Z", auth(started)), crash},
		"not ready since the start":            {at("2026-01-01T00:00:10Z", auth(started)), crash},
		"was ready, crashes again":             {at(weeksLater, auth("restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}")), crash},
		"was ready, ended just now":            {at(weeksLater, auth("restartCount: 1, state: {terminated: {exitCode: 137, reason: OOMKilled}}")), crash},
		"weeks ago, the node restarted since":  {at(weeksLater, auth("restartCount: 1, state: {waiting: {reason: ContainerCreating}}")), ""},
		"weeks ago, another one is not ready":  {at(weeksLater, "containerStatuses: [{name: auth, ready: true, "+started+", "+crashed+"}, {name: mesh, ready: false, state: {running: {}}}]"), ""},
		"an init container's, long since done": {at(weeksLater, "initContainerStatuses: [{name: init, ready: true, restartCount: 1, state: {terminated: {exitCode: 0}}, "+crashed+"}], containerStatuses: [{name: auth, ready: false, state: {running: {}}}]"), ""},
		// The text of a crash loop is equal in all states of the loop; otherwise each change of state would write the status.
		"a crash loop, ended":   {at(now, auth("restartCount: 3, state: {terminated: {exitCode: 137, reason: OOMKilled}}")), crash},
		"a crash loop, waiting": {at(now, auth(`restartCount: 3, state: {waiting: {reason: CrashLoopBackOff, message: "back-off 40s"}}`)), crash},
		"a crash loop, started": {at(now, auth(`restartCount: 4, state: {running: {startedAt: "2026-01-01T00:00:40Z"}}`)), crash},
	}.check(t)
}

// The kubelet alternates between two reports of a program that cannot be started. Both become one problem, which names the program.
func TestAProgramThatCannotStartIsNamed(t *testing.T) {
	t.Parallel()
	const (
		message = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/nope": stat /nope: no such file or directory: unknown`
		want    = `StartError: container auth cannot start: exec: "/nope": stat /nope: no such file or directory`
		ended   = `terminated: {exitCode: 128, reason: StartError, message: '` + message + `'}`
	)
	auth := func(state string) string { return "{containerStatuses: [{name: auth, " + state + "}]}" }
	problems{
		"waiting":           {auth(`state: {waiting: {reason: RunContainerError, message: '` + message + `'}}`), want},
		"ended":             {auth(`state: {` + ended + `}`), want},
		"backing off":       {auth(`state: {waiting: {reason: CrashLoopBackOff, message: m}}, lastState: {` + ended + `}`), want},
		"docker":            {auth(`state: {waiting: {reason: ContainerCannotRun, message: 'no such file'}}`), "StartError: container auth cannot start: no such file"},
		"without a message": {auth(`state: {waiting: {reason: RunContainerError}}`), "StartError: container auth cannot start"},
	}.check(t)
}

// A pod whose node is unreachable is reported while it is being deleted: the pod object stays until the node reports that the pod has ended.
func TestNodeProblem(t *testing.T) {
	t.Parallel()
	const since = `lastTransitionTime: "2026-01-02T03:04:05Z"`
	for name, test := range map[string]struct {
		status string
		away   bool
	}{
		"ready":                   {`{phase: Running, conditions: [{type: ContainersReady, status: "True"}, {type: Ready, status: "True", ` + since + `}]}`, false},
		"a probe fails":           {`{phase: Running, conditions: [{type: ContainersReady, status: "False"}, {type: Ready, status: "False", reason: ContainersNotReady, ` + since + `}]}`, false},
		"its node is unreachable": {`{phase: Running, conditions: [{type: ContainersReady, status: "True"}, {type: Ready, status: "False", ` + since + `}]}`, true},
		"a gate is not open":      {`{phase: Running, conditions: [{type: ContainersReady, status: "True"}, {type: Ready, status: "False", reason: ReadinessGatesNotReady, ` + since + `}]}`, false},
		"the pod has ended":       {`{phase: Succeeded, conditions: [{type: ContainersReady, status: "True"}, {type: Ready, status: "False", ` + since + `}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, test.status)
			assert.Equal(t, PodProblem(pod), "", "no node is known")
			pod.Spec.NodeName = "node-7"
			assert.Assert(t, !strings.Contains(PodProblem(pod), "volume"), "the pod has no volume")
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			for _, deleted := range []*metav1.Time{nil, ptr.To(metav1.Now())} {
				pod.DeletionTimestamp = deleted
				problem := PodProblem(pod)
				assert.Equal(t, problem != "", test.away, problem)
				for _, word := range []string{"NodeUnreachable: node node-7 ", " since 2026-01-02T03:04:05Z", "taint node node-7 node.kubernetes.io/out-of-service="} {
					assert.Equal(t, strings.Contains(problem, word), test.away, problem)
				}
			}
		})
	}
}

func TestPodHint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ status, reason, want string }{
		"nothing known":    {"{}", "", ""},
		"ready":            {`{conditions: [{type: Ready, status: "True"}]}`, "", ""},
		"not ready":        {`{conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: "containers with unready status: [auth]"}]}`, "ContainersNotReady", "not ready: containers with unready status: [auth]"},
		"no message":       {`{conditions: [{type: Ready, status: "False", reason: ContainersNotReady}]}`, "ContainersNotReady", "not ready: ContainersNotReady"},
		"no reason":        {`{conditions: [{type: Ready, status: "False", message: m}]}`, "NotReady", "not ready: m"},
		"volume not bound": {unbound, "Unschedulable", "Unschedulable: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
	} {
		reason, hint := podHint(podOf(t, test.status))
		assert.Equal(t, hint, test.want, name)
		assert.Equal(t, reason, test.reason, name)
	}
}

// The hint about a pod that waits for a volume names the claim.
func TestAnUnboundClaimIsNamed(t *testing.T) {
	t.Parallel()
	pod := podOf(t, unbound)
	pod.Spec.Volumes = []corev1.Volume{{}, {VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-0"}}}}
	state := State{}
	state.blame([]*corev1.Pod{pod})
	assert.Equal(t, state.Hint, "PersistentVolumeClaim data-0: it is not bound: `kubectl describe pvc data-0` has the reason")
	assert.Equal(t, state.HintCulprit.Kind+" "+state.HintCulprit.Reason, "PersistentVolumeClaim "+ReasonNotBound)
}

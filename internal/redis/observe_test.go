// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

var podOnDelete = []redisv1.Pod{{UpdateStrategy: &redisv1.PodUpdateStrategy{Type: "OnDelete"}}}

func testSet(shard int, pods int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Name, set.UID, set.Generation = setName("cache", shard), types.UID(setName("set", shard)), 2
	set.Spec.Replicas = ptr.To(pods)
	set.Status.ObservedGeneration, set.Status.UpdateRevision = 2, "new"
	return set
}

func testPod(name string, set *appsv1.StatefulSet) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"}}}
	pod.Status.PodIP, pod.Status.HostIP, pod.Spec.NodeName = "10.0.0.1", "192.0.2.1", "node"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if set != nil {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: set.UID, Controller: ptr.To(true)}}
	}
	return pod
}

// The operator does not connect to a pod that no StatefulSet of the cluster controls, or whose name has another form than the names of the
// StatefulSet's pods.
func TestOnlyOwnPodsAreDialled(t *testing.T) {
	t.Parallel()
	rc, own, foreign := read(t, "minimal"), testSet(0, 2), testSet(7, 2)
	outside := testPod("cache-0-1", foreign)
	obs := Observation{HostIPs: map[string]string{}, Problems: map[string]string{}}
	obs.place(rc, map[int]*appsv1.StatefulSet{0: own}, []*corev1.Pod{
		testPod("cache-0-0", own), outside, testPod("cache-1-0", nil), testPod("cache-9-0", own), testPod("other", own),
	})
	var dialled []string
	for _, node := range obs.Nodes {
		if node.IP != "" || node.UID != "" {
			dialled = append(dialled, node.Pod)
		}
	}
	assert.DeepEqual(t, dialled, []string{"cache-0-0"})
	assert.Equal(t, len(obs.Nodes), 6, "the pods that are not dialled count as missing")
}

func TestNodes(t *testing.T) {
	t.Parallel()
	rc, set := read(t, "minimal"), testSet(0, 3)
	old := testPod("cache-0-1", set)
	old.Labels[appsv1.ControllerRevisionHashLabelKey] = "old"
	going := testPod("cache-0-2", set)
	going.DeletionTimestamp = &metav1.Time{}
	place := func() Observation {
		obs := Observation{HostIPs: map[string]string{}, Problems: map[string]string{}, Record: topology.Record{Formed: true, Shards: []int{2, 2, 2, 2}}}
		obs.place(rc, map[int]*appsv1.StatefulSet{0: set}, []*corev1.Pod{testPod("cache-0-0", set), old, going})
		return obs
	}
	obs := place()
	assert.Equal(t, len(obs.Nodes), 3+2+2+2, "three pods of the StatefulSet of shard 0, and two pods of each other shard in the record")
	assert.Assert(t, obs.Nodes[0].WellFor > time.Hour)
	obs.Nodes[0].WellFor = 0
	assert.DeepEqual(t, obs.Nodes[0], topology.Node{Pod: "cache-0-0", UID: "cache-0-0", Host: "node", IP: "10.0.0.1", Running: true, Ready: true})
	assert.Assert(t, obs.Nodes[1].Outdated && obs.Nodes[2].Terminating && obs.Nodes[3].Problem != "")
	assert.Equal(t, obs.HostIPs["cache-0-0"], "192.0.2.1")
	rc.Spec.Pod = podOnDelete
	assert.Assert(t, !place().Nodes[1].Outdated, "OnDelete: a user replaces pods, so no pod is outdated")
	rc.Spec.Pod = nil
	set.Status.ObservedGeneration = 1
	assert.Assert(t, !place().Nodes[1].Outdated, "the latest revision is not known yet")
}

// claims is a client that lists claims.
type claims struct {
	client.Client

	items []unstructured.Unstructured
}

func (c claims) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*unstructured.UnstructuredList).Items = c.items
	return nil
}

// A node is marked if the claim of its pod is being deleted, because its data would be deleted with the pod.
func TestClaimsThatAreBeingDeleted(t *testing.T) {
	t.Parallel()
	rc, set := read(t, "minimal"), testSet(0, 2)
	claim := func(name string, leaves bool) (o unstructured.Unstructured) {
		if o.SetName(name); leaves {
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1.7e9, 0)})
		}
		return o
	}
	obs := Observation{HostIPs: map[string]string{}, Problems: map[string]string{}}
	obs.place(rc, map[int]*appsv1.StatefulSet{0: set}, []*corev1.Pod{testPod("cache-0-0", set), testPod("cache-0-1", set)})
	kind := &Kind{client: claims{items: []unstructured.Unstructured{claim("data-cache-0-0", false), claim("data-cache-0-1", true), claim("data-cache-1-0", true), claim("other", true)}}}
	assert.NilError(t, kind.seeClaims(t.Context(), rc, &obs))
	var leave []string
	for _, node := range obs.Nodes {
		if node.ClaimLeaves {
			leave = append(leave, node.Pod)
		}
	}
	assert.DeepEqual(t, leave, []string{"cache-0-1"})
}

// A pod counts as never up only if Kubernetes shows that its container never served.
func TestNeverUp(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Unix(1.7e9, 0))
	ended := &corev1.ContainerStateTerminated{ExitCode: 1}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "x"}}
	for name, c := range map[string]struct {
		status []corev1.ContainerStatus
		since  time.Duration // from the pod's start until it became unready
		want   bool
	}{
		"not scheduled":              {nil, 0, true},
		"the image cannot be pulled": {[]corev1.ContainerStatus{{Name: container, State: waiting}}, 0, true},
		"it runs":                    {[]corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, 0, false},
		"it ended once":              {[]corev1.ContainerStatus{{Name: container, State: waiting, RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: ended}}}, 0, false},
		"it ends again and again":    {[]corev1.ContainerStatus{{Name: container, State: waiting, RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: ended}}}, 0, true},
		"it ends again and again, and was ready before": {[]corev1.ContainerStatus{{Name: container, State: waiting, RestartCount: 9, LastTerminationState: corev1.ContainerState{Terminated: ended}}}, time.Minute, false},
	} {
		pod := testPod("cache-0-0", nil)
		pod.Status.StartTime, pod.Status.ContainerStatuses = &began, c.status
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(began.Add(c.since))}}
		node := topology.Node{}
		fill(&node, pod, testSet(0, 2))
		assert.Equal(t, node.NeverUp, c.want, name)
	}
}

// A pod counts as stuck only if its container does not run, and the kubelet has tried to run it.
func TestStuck(t *testing.T) {
	t.Parallel()
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		redis, init, sidecar corev1.ContainerState
		restarts             int32
		want                 bool
	}{
		"it runs":                                {redis: runs, restarts: 9},
		"it runs, and a sidecar does not":        {redis: runs, sidecar: waits("CrashLoopBackOff"), restarts: 9},
		"a sidecar does not run":                 {redis: waits("PodInitializing"), sidecar: waits("ErrImagePull")},
		"it is created again":                    {redis: waits("ContainerCreating"), restarts: 9},
		"it has just ended":                      {redis: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}, restarts: 9},
		"it ended once":                          {redis: waits("CrashLoopBackOff")},
		"it ends again and again":                {redis: waits("CrashLoopBackOff"), restarts: 1, want: true},
		"its image cannot be pulled":             {redis: waits("ImagePullBackOff"), restarts: 1, want: true},
		"its Secret is missing":                  {redis: waits("CreateContainerConfigError"), want: true},
		"an init container ends again and again": {redis: waits("PodInitializing"), init: waits("CrashLoopBackOff"), restarts: 3, want: true},
	} {
		pod := testPod("cache-0-0", nil)
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: c.init, RestartCount: c.restarts}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: c.sidecar, RestartCount: c.restarts}, {Name: container, State: c.redis, RestartCount: c.restarts}}
		node := topology.Node{}
		fill(&node, pod, testSet(0, 2))
		assert.Equal(t, node.Stuck, c.want, name)
	}
}

// live returns a pod in the state of the API server, and records deletions.
type live struct {
	client.Client

	pod     *corev1.Pod
	deleted []string
}

func (l *live) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if pod, ok := into.(*corev1.Pod); ok && l.pod != nil {
		l.pod.DeepCopyInto(pod)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

func (l *live) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	given := &client.DeleteOptions{}
	given.ApplyOptions(options)
	l.deleted = append(l.deleted, o.GetName()+" "+string(*given.Preconditions.UID)+" "+ptr.Deref(given.Preconditions.ResourceVersion, "any"))
	return nil
}

// A pod that did not answer is deleted only if the API server confirms its state: the cache may not show yet that the pod has started.
func TestPodsAreReadBeforeTheyAreDeleted(t *testing.T) {
	t.Parallel()
	waits := testPod("cache-0-0", nil)
	waits.Status.ContainerStatuses[0].State, waits.ResourceVersion = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}, "8"
	runs, another := testPod("cache-0-0", nil), testPod("cache-0-0", nil)
	runs.ResourceVersion, another.UID, waits.UID, runs.UID = "9", "another", "uid", "uid"
	for name, c := range map[string]struct {
		now       *corev1.Pod
		place     topology.Place
		isNeverUp bool
		isStuck   bool
		deleted   []string
		refused   string
	}{
		"its container waits":                          {waits, topology.Place{Pod: "cache-0-0", UID: "uid"}, true, false, []string{"cache-0-0 uid 8"}, ""},
		"its container has started":                    {runs, topology.Place{Pod: "cache-0-0", UID: "uid"}, true, false, nil, "its container redis has started"},
		"its container runs, and the step allows that": {runs, topology.Place{Pod: "cache-0-0", UID: "uid"}, false, false, []string{"cache-0-0 uid 9"}, ""},
		"it is another pod":                            {another, topology.Place{Pod: "cache-0-0", UID: "uid"}, true, false, nil, "has been replaced"},
		"the pod does not exist any more":              {nil, topology.Place{Pod: "cache-0-0", UID: "uid"}, true, false, nil, ""},
		"its server answered at the decision":          {nil, topology.Place{Pod: "cache-0-0", UID: "uid", ID: "node"}, false, false, []string{"cache-0-0 uid any"}, ""},
		"it cannot run":                                {waits, topology.Place{Pod: "cache-0-0", UID: "uid"}, false, true, []string{"cache-0-0 uid 8"}, ""},
		"its container could not run, and runs now":    {runs, topology.Place{Pod: "cache-0-0", UID: "uid"}, false, true, nil, "its container redis runs or is being started"},
	} {
		api := &live{pod: c.now}
		on := &cluster{Cluster: database.Cluster{Client: api, Live: api}, isNeverUp: c.isNeverUp, isStuck: c.isStuck}
		err := on.DeletePod(t.Context(), c.place)
		if c.refused == "" {
			assert.NilError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.refused, name)
			assert.ErrorIs(t, err, steps.ErrRefused, name)
		}
		assert.DeepEqual(t, api.deleted, c.deleted)
	}
}

func specOf(t *testing.T, text string) *redisv1.RedisClusterSpec {
	t.Helper()
	spec := &redisv1.RedisClusterSpec{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), spec))
	return spec
}

func TestImages(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}":                          "mirror/redis:1",
		"{version: 7.2.5}":            "docker.io/library/redis:7.2.5",
		"{repository: library/redis}": "library/redis:7.0.15",
		"{repository: library/redis, version: 6.2}":                                       "library/redis:6.2",
		"{repository: host:5000/team/, version: 7.4}":                                     "host:5000/team/redis:7.4",
		"{pod: [{middlewareImage: 'a/b:c'}]}":                                             "a/b:c",
		"{pod: [{middlewareImage: a/b}]}":                                                 "a/b",
		"{version: 7.2.5, pod: [{middlewareImage: 'host:5000/b'}]}":                       "host:5000/b:7.2.5",
		"{version: 7.2.5, pod: [{middlewareImage: 'b@sha256:1'}]}":                        "b@sha256:1",
		"{repository: host/team/, version: 7.2.5, pod: [{middlewareImage: 'redis:own'}]}": "host/team/redis:own",
		"{repository: library/redis, version: 7.0.15, pod: [{middlewareImage: string}]}":  "library/redis:7.0.15",
	} {
		assert.Equal(t, imageOf(specOf(t, spec), "mirror/redis:1"), want, spec)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": true, "7.0.15": true, "6.2": true, "6.2.14-alpine": true, "7": true, "8.2.1": true, "10.0": true,
		"3.2.8": false, "6.0.20": false, "5.0": false, "6": false, "6.1": false,
	} {
		assert.Equal(t, isSupported(version), want, version)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := settingsOf(map[string]redisv1.Setting{"io-threads": "4", "maxmemory": "1kb", "notify-keyspace-events": "KEA"})
	assert.DeepEqual(t, s.live, map[string]string{"maxmemory": "1kb"})
	assert.DeepEqual(t, s.start, map[string]string{"io-threads": "4", "notify-keyspace-events": "KEA"})
	assert.Equal(t, nodeTimeout(map[string]string{settingNodeTimeout: "15000"}), 15*time.Second)
	assert.Equal(t, nodeTimeout(nil), defaultNodeTimeout)
	conf, err := os.ReadFile("../../helm-charts/rediscluster/files/redis.conf")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(conf), "\ncluster-node-timeout 5000\n"), "the chart has another node timeout than defaultNodeTimeout")
}

func TestWanted(t *testing.T) {
	t.Parallel()
	rc := read(t, "sample")
	obs := wanted(rc, false)
	assert.DeepEqual(t, obs.Shards, []int{3, 2, 2})
	assert.DeepEqual(t, obs.Assign[1].From, []string{"nodeId3", "nodeId4"})
	assert.Equal(t, obs.Assign[0].Slots, 2000)
	assert.Equal(t, pipelineOf(&rc.Spec), 100)
	rc = read(t, "minimal")
	rc.Annotations = map[string]string{redisv1.AnnotationConsent: " 0-99, abc "}
	obs = wanted(rc, false)
	assert.Assert(t, obs.Assign == nil)
	assert.DeepEqual(t, obs.Consent, []string{"0-99", "abc"})
	assert.Equal(t, pipelineOf(&rc.Spec), defaultPipeline)
}

func TestWhatHasNoEffectIsNamed(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}":                                   "",
		"{pod: [{volumes: {type: hostPath}}]}": "",
		"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: data}}]}":    "",
		"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: pvcName}}]}": `no claim can be named "pvcName"`,
		"{pod: [{volumes: {type: nfs}}]}":                                     "without persistentVolumeClaimName",
	} {
		notes := strings.Join(ignored(specOf(t, spec)), "; ")
		assert.Assert(t, strings.Contains(notes, want) && (want != "" || notes == ""), "%s: %s", spec, notes)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

const gi = 1 << 30

// recorded collects events.
type recorded struct{ events []Event }

func (r *recorded) Record(_ context.Context, e Event) { r.events = append(r.events, e) }

// reporting serves the use of a volume at a free loopback address, as the container of a pod does.
func reporting(t *testing.T, use *contract.Volume) (ip string) {
	t.Helper()
	var listener net.Listener
	var err error
	for last := 1; listener == nil && last < 255; last++ {
		ip = fmt.Sprintf("127.%d.251.%d", 200+os.Getpid()%50, last)
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, contract.VolumePort))
	}
	assert.NilError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+contract.PathState, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(use) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return ip
}

// A nearly full volume grows in one step, although its server does not run. The next reconciliation waits until this
// step is complete. A volume at the limit, or on a file system that other volumes share, does not grow. The operator
// reports this once, as the cause of the problems that the pods report.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	owner := object.Owner{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Book"), Namespace: "ns", Name: "platform", UID: "u"}
	use := &contract.Volume{Used: 10 * gi, Capacity: 10 * gi}
	labels := owner.Labels("mysql")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-a-0", UID: "c", Labels: labels}}
	claim.Annotations = map[string]string{object.AnnotationDigest: "d"}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
	foreign := claim.DeepCopy()
	foreign.Name, foreign.Labels, foreign.Annotations = "data-b-0", nil, nil
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "s", Labels: labels, Annotations: claim.Annotations}}
	pod := func(claim, ip string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
			Spec: corev1.PodSpec{
				// no containers: the cache drops them (kube, slimPod)
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
			},
			Status: corev1.PodStatus{PodIP: ip, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "mysql", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
				{Name: volumeContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}},
		}
	}
	ip := reporting(t, use)
	other := pod("data-a-0", reporting(t, &contract.Volume{Used: 1, Capacity: 1})) // pod of an earlier StatefulSet with the same name
	other.OwnerReferences[0].UID = "old"
	silent := pod("data-a-0", ip) // the container has stopped, so it gets no request
	silent.Status.ContainerStatuses[1].State = corev1.ContainerState{}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(claim, foreign, set).WithStatusSubresource(claim).Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*corev1.PodList).Items = []corev1.Pod{silent, other, pod("data-b-0", ip), pod("data-a-0", ip)}
			return nil
		},
	})
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	engine, events := NewEngine(c, apply.New(c, c, types, "1.2.3")), &recorded{}
	pass := func(limit string) PartSeen {
		t.Helper()
		seen := PlanSeen{Parts: []PartSeen{{Name: "other"}, {Name: "mysql", Kind: "StatefulSet", grow: apply.NewGrowthPolicy(resource.MustParse(limit), "", "")}}}
		seen.Parts[1].Health = health.State{Problem: "pod a-0: CrashLoopBackOff"}
		assert.NilError(t, engine.growVolumes(t.Context(), owner, &seen, events))
		assert.Equal(t, seen.Parts[0].LookAgain, time.Duration(0))
		assert.Equal(t, seen.Parts[1].LookAgain, volumesSeen)
		return seen.Parts[1]
	}
	size := func(claim *corev1.PersistentVolumeClaim) string {
		live := &corev1.PersistentVolumeClaim{}
		assert.NilError(t, c.Get(t.Context(), client.ObjectKeyFromObject(claim), live))
		return live.Spec.Resources.Requests.Storage().String()
	}
	for range 2 {
		assert.Equal(t, len(pass("13Gi").Notes), 0)
		assert.Equal(t, size(claim), "12Gi")
	}
	assert.Equal(t, size(foreign), "10Gi")
	assert.Equal(t, len(events.events), 1)
	assert.Equal(t, events.events[0].Note, "PersistentVolumeClaim data-a-0 grows to 12Gi: its file system was nearly full")

	becomes := func(capacity string) {
		live := &corev1.PersistentVolumeClaim{}
		assert.NilError(t, c.Get(t.Context(), client.ObjectKeyFromObject(claim), live))
		live.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		assert.NilError(t, c.Status().Update(t.Context(), live))
	}
	becomes("12Gi")
	*use = contract.Volume{Used: 10 * gi, Capacity: 12 * gi}
	assert.Equal(t, len(pass("13Gi").Notes), 0)
	assert.Equal(t, size(claim), "13Gi")
	becomes("13Gi")
	*use = contract.Volume{Used: 13 * gi, Capacity: 13 * gi}
	const why = "it has reached the limit of 13Gi: raise the limit of autoGrow, or delete data"
	for range 2 {
		part := pass("13Gi")
		assert.DeepEqual(t, part.Notes, []health.Note{{Text: "PersistentVolumeClaim data-a-0 is nearly full, but does not grow: " + why, Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "data-a-0", Reason: health.ReasonVolumeFull}}})
		assert.DeepEqual(t, part.Health.Culprit, health.Culprit{Kind: "PersistentVolumeClaim", Name: "data-a-0", Reason: health.ReasonVolumeFull, Message: why})
	}
	assert.Equal(t, len(events.events), 3)
	assert.Equal(t, events.events[2].Reason, EventVolumeNotGrown)
	*use = contract.Volume{Used: 12 * gi, Capacity: 13 * gi}
	assert.Equal(t, pass("13Gi").Health.Problem, "pod a-0: CrashLoopBackOff", "the volume is not the cause: it has room")
}

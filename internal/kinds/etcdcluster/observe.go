// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
)

// container is the name of etcd's container in each pod.
const container = "etcd"

// World is what is observed of a cluster: plain data.
type World struct {
	View membership.View
	// Problems are by pod: why it does not come up, in Kubernetes' words.
	Problems map[string]string

	// Replacing reports whether the StatefulSet is being replaced around its pods: nothing is decided until it has them.
	Replacing bool

	access       server.Access
	certificates []certificate
	backups      runs.Seen
	recordAt     stateful.Version
}

// see reads from the cache what Kubernetes knows of a cluster.
func (k *Kind) see(ctx context.Context, ec *etcdv1.EtcdCluster, pods kinds.Pods, w *World) error {
	var err error
	if w.View.Record, w.recordAt, err = records.Observe(ctx, k.client, kinds.OwnerOf(k, ec)); err != nil {
		return err
	}
	set, err := k.seeSet(ctx, ec)
	if err != nil {
		return err
	}
	live, err := pods(ctx, part)
	if err != nil {
		return err
	}
	if set != nil {
		w.View.Lagging = stateful.IsLagging(set)
		w.View.Live = int(*set.Spec.Replicas)
	}
	for _, pod := range live {
		k.seePod(ec, set, pod, w)
	}
	if w.Replacing {
		w.View.Lagging = true
	}
	slices.SortFunc(w.View.Pods, func(a, b membership.Pod) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return k.seeClaims(ctx, ec, w)
}

// seeSet returns the StatefulSet that the resource controls and that stays, or nil.
func (k *Kind) seeSet(ctx context.Context, ec *etcdv1.EtcdCluster) (*appsv1.StatefulSet, error) {
	o := object.Empty(object.StatefulSetKind)
	err := k.client.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: ec.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", ec.Name, err)
	}
	if !kinds.OwnerOf(k, ec).Controls(o) || o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return stateful.Set(o), nil
}

// seePod adds a pod if it is the StatefulSet's, and has the name that this gives to its pods: labels alone are no proof.
func (k *Kind) seePod(ec *etcdv1.EtcdCluster, set *appsv1.StatefulSet, pod *corev1.Pod, w *World) {
	n, ok := stateful.Ordinal(pod.Name, ec.Name+"-")
	switch {
	case !ok:
		return
	case set != nil && metav1.IsControlledBy(pod, set):
	case (set == nil || w.View.Lagging) && isBetween(pod, ec.Name): // the StatefulSet is replaced around its pods, as for larger volumes
		w.Replacing = true
	default:
		return
	}
	now := k.now()
	seen := membership.Pod{
		Name: pod.Name, Ordinal: n, UID: string(pod.UID), IP: pod.Status.PodIP, Terminating: pod.DeletionTimestamp != nil,
		Outdated: set != nil && stateful.IsOutdated(pod, set), Revision: pod.Labels[appsv1.ControllerRevisionHashLabelKey], Ticket: pod.Annotations[object.AnnotationTicket], Problem: health.PodProblem(pod),
	}
	if seen.Problem != "" {
		w.Problems[pod.Name] = seen.Problem
	}
	ready, since := readiness(pod)
	if seen.Ready = ready; !ready {
		seen.NotReadyFor = now.Sub(since)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container {
			seen.Running, seen.Crashing = c.State.Running != nil, isCrashing(pod)
		}
	}
	w.View.Pods = append(w.View.Pods, seen)
}

// isBetween reports whether a pod has no StatefulSet at present, or still names an earlier one of the cluster.
func isBetween(pod *corev1.Pod, cluster string) bool {
	controller := metav1.GetControllerOf(pod)
	return controller == nil || controller.Kind == object.StatefulSetKind.Kind && controller.Name == cluster
}

// readiness returns whether a pod is ready, and since when.
func readiness(pod *corev1.Pod) (ready bool, since time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, pod.CreationTimestamp.Time
}

// isCrashing reports whether etcd in a pod ends by itself again and again.
func isCrashing(pod *corev1.Pod) bool {
	ready, since := readiness(pod)
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			return !ready && crashing(c, since)
		}
	}
	return false
}

// crashing reports whether etcd ends by itself again and again since its pod became unready: the kubelet says that it waits
// before it starts the container once more, and the last end came after that. The count of restarts says nothing, because it is
// that of a lifetime. No evidence about the volume are ends that somebody else brought about: the kernel for want of memory,
// the kubelet by a signal, or the agent, which leaves a message.
func crashing(c *corev1.ContainerStatus, unready time.Time) bool {
	if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || c.RestartCount < 2 {
		return false
	}
	end := c.LastTerminationState.Terminated
	if end == nil || end.FinishedAt.Time.Before(unready) || end.Reason != "Error" || end.Message != "" {
		return false
	}
	const killed, terminated = 128 + 9, 128 + 15
	return end.ExitCode != killed && end.ExitCode != terminated
}

// seeClaims adds the claims of the cluster's pods, those that an earlier resource of the same name left as well.
func (k *Kind) seeClaims(ctx context.Context, ec *etcdv1.EtcdCluster, w *World) error {
	owner := kinds.OwnerOf(k, ec)
	list := object.EmptyList(object.ClaimKind)
	if err := k.client.List(ctx, list, client.InNamespace(ec.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}); err != nil {
		return fmt.Errorf("list the claims of %s: %w", ec.Name, err)
	}
	for i := range list.Items {
		claim, ok, err := readClaim(ec.Name, &list.Items[i], k.now())
		if err != nil {
			return err
		}
		if ok {
			w.View.Claims = append(w.View.Claims, claim)
		}
	}
	slices.SortFunc(w.View.Claims, func(a, b membership.Claim) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return nil
}

// The annotations on claims: whose data the volume has.
const (
	annotationCluster = "etcd.database.coreos.com/cluster-id"
	annotationMember  = "etcd.database.coreos.com/member-id"
	annotationVersion = "etcd.database.coreos.com/version"
	// annotationPosition is up to which entry of the log the data went when the member was last seen: its term, its index, and when.
	annotationPosition = "etcd.database.coreos.com/position"
	// annotationRecoveries are the tokens of recoveries of the cluster.
	annotationRecoveries = "etcd.database.coreos.com/recoveries"
)

func claimName(cluster string, ordinal int) string { return "data-" + podName(cluster, ordinal) }

// readClaim reads what a claim says. ok is false for a claim that no pod of the cluster uses.
func readClaim(cluster string, o *unstructured.Unstructured, now time.Time) (claim membership.Claim, ok bool, err error) {
	n, ok := stateful.Ordinal(o.GetName(), "data-"+cluster+"-")
	if !ok {
		return claim, false, nil
	}
	annotations := o.GetAnnotations()
	claim = membership.Claim{
		Name: o.GetName(), Ordinal: n, UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(), Terminating: o.GetDeletionTimestamp() != nil,
		Version: annotations[annotationVersion], Tokens: annotations[annotationRecoveries],
	}
	err = claim.Cluster.UnmarshalText([]byte(annotations[annotationCluster]))
	if err == nil {
		err = claim.Member.UnmarshalText([]byte(annotations[annotationMember]))
	}
	if text := annotations[annotationPosition]; err == nil && text != "" {
		var at string
		if _, err = fmt.Sscan(text, &claim.Position.Term, &claim.Position.Index, &at); err == nil {
			var noted time.Time
			noted, err = time.Parse(time.RFC3339, at)
			claim.MarkedFor = now.Sub(noted)
		}
	}
	if err != nil {
		return claim, false, fmt.Errorf("read the annotations of claim %s: %w", claim.Name, err)
	}
	return claim, true, nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Pods are the pods of a resource with one StatefulSet, which has the resource's name.
type Pods struct {
	// Replicas is spec.replicas of the StatefulSet; 0 if there is no StatefulSet.
	Replicas int
	// Lagging reports whether Kubernetes has not processed the latest StatefulSet yet. Until then, it is unknown which
	// pods are outdated.
	Lagging bool
	// Replacing reports whether the StatefulSet is being replaced while its pods run, for example to enlarge volumes. No step is decided
	// until the new StatefulSet owns the pods. If Replacing is true, Lagging is also true.
	Replacing bool
	List      []Pod // by ordinal
}

// Pod is one of Pods.
type Pod struct {
	*corev1.Pod

	Ordinal  int
	Outdated bool   // the pod is known to differ from the latest revision
	Problem  string // the reason that Kubernetes reports for a pod that does not run
}

// SeePods reads the StatefulSet and the pods of a resource from the cache.
func SeePods(ctx context.Context, from client.Reader, owner object.Owner, pods reconcile.Pods, part string) (Pods, error) {
	set, err := ReadSet(ctx, from, owner)
	if err != nil {
		return Pods{}, err
	}
	live, err := pods(ctx, part)
	if err != nil {
		return Pods{}, err
	}
	return podsOf(owner.Name, set, live), nil
}

// podsOf returns the pods that the StatefulSet controls and whose names have its form. While the StatefulSet is being replaced, the pods of
// the previous StatefulSet also count. A pod that only has the labels does not count.
func podsOf(name string, set *appsv1.StatefulSet, live []*corev1.Pod) Pods {
	seen := Pods{}
	if set != nil {
		seen.Lagging, seen.Replicas = IsLagging(set), int(*set.Spec.Replicas)
	}
	for _, pod := range live {
		ordinal, ok := Ordinal(pod.Name, name+"-")
		switch {
		case !ok:
			continue
		case set != nil && metav1.IsControlledBy(pod, set):
		case (set == nil || IsLagging(set)) && isBetween(pod, name):
			seen.Replacing, seen.Lagging = true, true
		default:
			continue
		}
		seen.List = append(seen.List, Pod{Pod: pod, Ordinal: ordinal, Outdated: set != nil && IsOutdated(pod, set), Problem: health.PodProblem(pod)})
	}
	slices.SortFunc(seen.List, func(a, b Pod) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return seen
}

// isBetween reports whether a pod has no StatefulSet at present, or is still owned by an earlier StatefulSet with the given name.
func isBetween(pod *corev1.Pod, set string) bool {
	controller := metav1.GetControllerOf(pod)
	return controller == nil || controller.Kind == object.StatefulSetKind.Kind && controller.Name == set
}

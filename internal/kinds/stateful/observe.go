// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Set reads of a StatefulSet what is of interest.
func Set(o *unstructured.Unstructured) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Name, set.UID, set.Generation = o.GetName(), o.GetUID(), o.GetGeneration()
	replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	pods := int32(replicas) //nolint:gosec // the API server takes no more
	set.Spec.Replicas = &pods
	set.Status.ObservedGeneration, _, _ = unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	set.Status.UpdateRevision, _, _ = unstructured.NestedString(o.Object, "status", "updateRevision")
	return set
}

// IsLagging reports whether Kubernetes has not looked at the latest StatefulSet yet: nobody knows which pods are outdated.
func IsLagging(set *appsv1.StatefulSet) bool { return set.Generation != set.Status.ObservedGeneration }

// IsOutdated reports whether a pod is known to differ from what its StatefulSet asks for.
func IsOutdated(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	return !IsLagging(set) && set.Status.UpdateRevision != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
}

// ImageOf returns the image of a container in the pods of a StatefulSet; empty without one.
func ImageOf(set *unstructured.Unstructured, container string) string {
	return imageIn(set, "containers", container)
}

// InitImageOf returns the image of an init container in the pods of a StatefulSet; empty without one.
func InitImageOf(set *unstructured.Unstructured, container string) string {
	return imageIn(set, "initContainers", container)
}

func imageIn(set *unstructured.Unstructured, field, container string) string {
	if set == nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", field)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok && c["name"] == container {
			image, _ := c["image"].(string)
			return image
		}
	}
	return ""
}

// Ordinal returns the number at the end of a name that begins with a prefix.
func Ordinal(name, prefix string) (n int, ok bool) {
	rest, found := strings.CutPrefix(name, prefix)
	if !found {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == rest
}

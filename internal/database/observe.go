// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// Set converts a StatefulSet to its Go type. It omits the fields that no decision needs.
func Set(o *unstructured.Unstructured) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Name, set.UID, set.Generation = o.GetName(), o.GetUID(), o.GetGeneration()
	replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	pods := int32(replicas) //nolint:gosec // the API server accepts no larger number
	set.Spec.Replicas = &pods
	set.Status.ObservedGeneration, _, _ = unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	set.Status.UpdateRevision, _, _ = unstructured.NestedString(o.Object, "status", "updateRevision")
	return set
}

// ReadSet returns the StatefulSet that has a resource's name and is controlled by the resource. It returns nil if there
// is none, or if it is being deleted.
func ReadSet(ctx context.Context, from client.Reader, owner object.Owner) (*appsv1.StatefulSet, error) {
	o := object.Empty(object.StatefulSetKind)
	err := from.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", owner.Name, err)
	}
	if !owner.Controls(o) || o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return Set(o), nil
}

// PodName returns the name of a pod of a StatefulSet.
func PodName(set string, ordinal int) string { return fmt.Sprintf("%s-%d", set, ordinal) }

// ClaimName returns the name of the claim for the data of a StatefulSet's pod.
func ClaimName(set string, ordinal int) string { return "data-" + PodName(set, ordinal) }

// IsLagging reports whether Kubernetes has not processed the latest StatefulSet yet. Until then, it is unknown which
// pods are outdated.
func IsLagging(set *appsv1.StatefulSet) bool { return set.Generation != set.Status.ObservedGeneration }

// IsOutdated reports whether a pod is known to differ from its StatefulSet's latest revision.
func IsOutdated(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	return !IsLagging(set) && set.Status.UpdateRevision != "" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
}

// ImageOf returns the image of a container in the pods of a StatefulSet, or "".
func ImageOf(set *unstructured.Unstructured, container string) string {
	return imageIn(set, "containers", container)
}

// InitImageOf returns the image of an init container in the pods of a StatefulSet, or "".
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

// Ordinal returns the number after a prefix in a name.
func Ordinal(name, prefix string) (n int, ok bool) {
	rest, found := strings.CutPrefix(name, prefix)
	if !found {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == rest
}

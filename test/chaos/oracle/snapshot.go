// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// written are the kinds of a platform's objects, including DataService.
var written = append(slices.Clone(object.Kinds), schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"})

// Snapshot lists the pods of a namespace, and the version of each object.
type Snapshot struct {
	Pods    map[string]string // by name: UID, restarts and readiness
	Objects map[string]string // by kind/name: UID and version
}

// Take reads the pods and the platforms' objects of a namespace.
func Take(ctx context.Context, api client.Client, namespace string) (Snapshot, error) {
	s := Snapshot{Pods: map[string]string{}, Objects: map[string]string{}}
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return s, fmt.Errorf("list the pods in %s: %w", namespace, err)
	}
	for _, pod := range pods.Items {
		restarts, ready := int32(0), false
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		for _, condition := range pod.Status.Conditions {
			ready = ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}
		s.Pods[pod.Name] = fmt.Sprintf("%s, %d restarts, ready %t", pod.UID, restarts, ready)
	}
	for _, gvk := range written {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return s, fmt.Errorf("list each %s in %s: %w", gvk.Kind, namespace, err)
		}
		for _, o := range list.Items {
			s.Objects[gvk.Kind+"/"+o.Name] = fmt.Sprintf("%s, %s", o.UID, versionOf(&o))
		}
	}
	return s, nil
}

// versionOf returns a text that changes with every write of an object except status writes. (A status write also changes the resource
// version.) For an object with a status, the text contains the generation, which changes with the spec. It also contains the time and
// writer of each other write, such as a write of an annotation.
func versionOf(object *metav1.PartialObjectMetadata) string {
	version := fmt.Sprintf("generation %d", object.Generation)
	status := object.Generation != 0
	for _, entry := range object.ManagedFields {
		if entry.Subresource != "" {
			status = true
			continue
		}
		version += fmt.Sprintf(", written by %s at %s", entry.Manager, entry.Time.UTC().Format(time.RFC3339))
	}
	if !status {
		return "resource version " + object.ResourceVersion
	}
	return version
}

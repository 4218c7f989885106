// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// handlers are the fields for the action of a hook or a probe. Kubernetes allows only one of them.
var handlers = []string{"exec", "grpc", "httpGet", "sleep", "tcpSocket"}

// acting holds the paths of hooks and probes in a container.
var acting = [][]string{{"lifecycle", "preStop"}, {"lifecycle", "postStart"}, {"startupProbe"}, {"readinessProbe"}, {"livenessProbe"}}

// containerIn returns the container with a name in a pod template, or nil.
func containerIn(template map[string]any, name any) map[string]any {
	containers, _, _ := unstructured.NestedFieldNoCopy(template, "spec", "containers")
	items, _ := containers.([]any)
	for _, item := range items {
		if c, ok := item.(map[string]any); ok && c["name"] == name {
			return c
		}
	}
	return nil
}

// fieldsAt returns the object at a path of a container, or nil.
func fieldsAt(container map[string]any, path []string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(container, path...)
	fields, _ := value.(map[string]any)
	return fields
}

// replaceHandlers removes the handler of a rendered hook or probe for which a podTemplate has another handler. A merge would keep both.
func replaceHandlers(template, podTemplate map[string]any) {
	containers, _, _ := unstructured.NestedFieldNoCopy(template, "spec", "containers")
	items, _ := containers.([]any)
	for _, item := range items {
		rendered, _ := item.(map[string]any)
		given := containerIn(podTemplate, rendered["name"])
		for _, path := range acting {
			for name, value := range fieldsAt(given, path) {
				if value == nil || !slices.Contains(handlers, name) {
					continue
				}
				maps.DeleteFunc(fieldsAt(rendered, path), func(other string, _ any) bool { return other != name && slices.Contains(handlers, other) })
			}
		}
	}
}

// fitPauses shortens the rendered pauses before SIGTERM to half of a grace period that a podTemplate sets. The API server refuses a pause
// that is longer than the period.
func fitPauses(pods *corev1.PodTemplateSpec, podTemplate map[string]any) {
	grace := pods.Spec.TerminationGracePeriodSeconds
	if grace == nil {
		return
	}
	for i := range pods.Spec.Containers {
		c := &pods.Spec.Containers[i]
		given := fieldsAt(containerIn(podTemplate, c.Name), []string{"lifecycle", "preStop"})
		if given != nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
			continue
		}
		if c.Lifecycle.PreStop.Sleep.Seconds = min(c.Lifecycle.PreStop.Sleep.Seconds, *grace/2); c.Lifecycle.PreStop.Sleep.Seconds == 0 {
			c.Lifecycle.PreStop = nil
		}
	}
}

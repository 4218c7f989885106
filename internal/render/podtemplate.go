// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"d3os.com/d3os-operator/internal/workers"
)

// OverlayPods merges the podTemplate at a path of a spec into a rendered pod template by Kubernetes' strategic merge, and returns the
// result. A wrong podTemplate is an *Error. A podTemplate may not set labels or annotations of the operator's domains. It may not change a
// label app.kubernetes.io/… (used in the charts' selectors), or an annotation with which charts replace pods.
func OverlayPods(path string, template map[string]any, podTemplate []byte) (map[string]any, error) {
	var patch map[string]any
	if err := json.Unmarshal(podTemplate, &patch); err != nil {
		return nil, FieldError(path, "%v", err)
	}
	if err := checkSize(path, patch, maxItems, new(int)); err != nil {
		return nil, err
	}
	if err := Decode(path, withoutDirectives(patch), &corev1.PodTemplateSpec{}); err != nil {
		return nil, err
	}
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	replaceHandlers(template, patch)
	var merged map[string]any
	err := workers.Protect(func() (err error) { // the merge panics on directives with values of wrong types
		merged, err = strategicpatch.StrategicMergeMapPatch(template, patch, corev1.PodTemplateSpec{})
		return err
	})
	if err != nil {
		return nil, FieldError(path, "%v", err)
	}
	result := &corev1.PodTemplateSpec{}
	if err := Decode(path, merged, result); err != nil {
		return nil, err
	}
	selects := func(key string) bool { return strings.HasPrefix(key, "app.kubernetes.io/") }
	if err := checkOwn(path, "label", labels, result.Labels, selects); err != nil {
		return nil, err
	}
	replaces := func(key string) bool { return strings.HasPrefix(key, checksumDomain+"/") }
	if err := checkOwn(path, "annotation", annotations, result.Annotations, replaces); err != nil {
		return nil, err
	}
	if err := CheckClaims(path, &result.Spec); err != nil {
		return nil, err
	}
	if err := unifyLists(path, &result.Spec); err != nil {
		return nil, err
	}
	if err := unifyContainers(path, "containers", patch, result.Spec.Containers); err != nil {
		return nil, err
	}
	fitPauses(result, patch)
	if err := unifyContainers(path, "initContainers", patch, result.Spec.InitContainers); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(result)
}

// unifyLists removes repeated imagePullSecrets, and refuses two hostAliases of one ip. Kubernetes accepts both, but server-side apply refuses
// them.
func unifyLists(path string, pod *corev1.PodSpec) error {
	pod.ImagePullSecrets = LastOfName(pod.ImagePullSecrets, func(s corev1.LocalObjectReference) any { return s.Name })
	first := map[string]int{}
	for i, alias := range pod.HostAliases {
		if other, ok := first[alias.IP]; ok {
			return FieldError(fmt.Sprintf("%s.spec.hostAliases[%d].ip", path, i), "must be unique: '%s' is also the ip of hostAliases[%d]: list all hostnames there", alias.IP, other)
		}
		first[alias.IP] = i
	}
	return nil
}

// unifyContainers keeps the last of several variables with one name in each container, and refuses a port twice. Only lists that the
// podTemplate adds as a whole can have duplicates: in other lists, the strategic merge joins items of the same key.
func unifyContainers(path, field string, podTemplate map[string]any, containers []corev1.Container) error {
	given, _, _ := unstructured.NestedSlice(podTemplate, "spec", field)
	for i := range containers {
		c := &containers[i]
		c.Env = LastOfName(c.Env, func(e corev1.EnvVar) any { return e.Name })
		if port, earlier := RepeatedPort(c.Ports); port > 0 {
			at := slices.IndexFunc(given, func(g any) bool { fields, _ := g.(map[string]any); return fields["name"] == c.Name })
			return FieldError(fmt.Sprintf("%s.spec.%s[%d].ports[%d].containerPort", path, field, at, port), "%s", RepeatedPortProblem(c.Ports, port, earlier))
		}
	}
	return nil
}

// LastOfName returns a list with only the last item of each name.
func LastOfName[T any](list []T, name func(T) any) []T {
	last := map[any]int{}
	for i, item := range list {
		last[name(item)] = i
	}
	if len(last) == len(list) {
		return list
	}
	kept := make([]T, 0, len(last))
	for i, item := range list {
		if last[name(item)] == i {
			kept = append(kept, item)
		}
	}
	return kept
}

// RepeatedPort finds the first port that repeats the number and protocol of an earlier port, because server-side apply
// refuses such ports. It returns the index of each of the two; i is 0 if no port is repeated.
func RepeatedPort(ports []corev1.ContainerPort) (i, earlier int) {
	type id struct {
		port     int32
		protocol corev1.Protocol
	}
	first := map[id]int{}
	for i, port := range ports {
		at := id{port.ContainerPort, cmp.Or(port.Protocol, corev1.ProtocolTCP)}
		if earlier, ok := first[at]; ok {
			return i, earlier
		}
		first[at] = i
	}
	return 0, 0
}

// RepeatedPortProblem returns the message for a result of RepeatedPort.
func RepeatedPortProblem(ports []corev1.ContainerPort, i, earlier int) string {
	return fmt.Sprintf("must be unique: %d/%s is also the port of ports[%d]", ports[i].ContainerPort, cmp.Or(ports[i].Protocol, corev1.ProtocolTCP), earlier)
}

// WorkContainer is the name of the working container in a podTemplate for backups.
const WorkContainer = "backup"

// OverlayJobs merges a podTemplate for backups into the pod template of a workload for backups, as OverlayPods does. Settings for the
// container WorkContainer apply to the first container, regardless of its name.
func OverlayJobs(path string, template map[string]any, podTemplate []byte) (map[string]any, error) {
	var patch map[string]any
	if err := json.Unmarshal(podTemplate, &patch); err != nil {
		return nil, FieldError(path, "%v", err)
	}
	work := WorkContainer
	if containers, _, _ := unstructured.NestedSlice(template, "spec", "containers"); len(containers) > 0 {
		if first, ok := containers[0].(map[string]any); ok {
			work, _ = first["name"].(string)
		}
	}
	spec, _ := patch["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for i := range containers {
		if c, ok := containers[i].(map[string]any); ok && c["name"] == WorkContainer {
			c["name"] = work
		}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return OverlayPods(path, template, data)
}

// OverlayBackups merges a podTemplate for backups into the pods of the CronJobs and Deployments of a cluster, as
// OverlayJobs does. The only such Deployment is the archive.
func OverlayBackups(path string, objects []*unstructured.Unstructured, podTemplate []byte) error {
	at := map[string][]string{"CronJob": {"spec", "jobTemplate", "spec", "template"}, "Deployment": {"spec", "template"}}
	for _, o := range objects {
		if at[o.GetKind()] == nil {
			continue
		}
		if err := overlayObject(o, OverlayJobs, path, podTemplate, at[o.GetKind()]...); err != nil {
			return err
		}
	}
	return nil
}

// OverlayStatefulSets merges a podTemplate into the pods of the StatefulSets among some objects, as OverlayPods does.
func OverlayStatefulSets(path string, objects []*unstructured.Unstructured, podTemplate []byte) error {
	for _, o := range objects {
		if o.GetKind() != "StatefulSet" {
			continue
		}
		if err := overlayObject(o, OverlayPods, path, podTemplate, "spec", "template"); err != nil {
			return err
		}
	}
	return nil
}

// overlayObject merges a podTemplate into the pods of an object, and names their service account as the API server does.
func overlayObject(o *unstructured.Unstructured, overlay func(string, map[string]any, []byte) (map[string]any, error), path string, podTemplate []byte, at ...string) error {
	pods, _, err := unstructured.NestedMap(o.Object, at...)
	if err != nil {
		return fmt.Errorf("read the pods of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if pods, err = overlay(path, pods, podTemplate); err != nil {
		return err
	}
	// The API server copies each of the two fields for the account to the other field, so an old name would return.
	if account, found, _ := unstructured.NestedString(pods, "spec", "serviceAccountName"); found {
		if err := unstructured.SetNestedField(pods, account, "spec", "serviceAccount"); err != nil {
			return fmt.Errorf("set the service account of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := unstructured.SetNestedMap(o.Object, pods, at...); err != nil {
		return fmt.Errorf("set the pods of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// withoutDirectives returns a copy without the directives of a strategic merge, such as $patch: delete.
func withoutDirectives(value any) any {
	switch v := value.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key := range v {
			if strings.HasPrefix(key, "$") {
				delete(v, key)
				continue
			}
			v[key] = withoutDirectives(v[key])
		}
		return v
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = withoutDirectives(v[i])
		}
		return items
	}
	return value
}

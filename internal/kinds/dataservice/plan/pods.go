// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
)

// podTemplates are the places of a pod template, by kind.
var podTemplates = map[string][]string{
	"Deployment":  {"spec", "template"},
	"StatefulSet": {"spec", "template"},
	"DaemonSet":   {"spec", "template"},
	"CronJob":     {"spec", "jobTemplate", "spec", "template"},
}

// completePods lays the spec's podTemplate over a component's pods, and refuses pods that the
// API server would refuse for what the spec adds to them.
func completePods(c *component.Component, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		path, ok := podTemplates[object.GetKind()]
		if !ok {
			continue
		}
		template, _, err := unstructured.NestedMap(object.Object, path...)
		if err != nil {
			return fmt.Errorf("read the pods of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if c.PodTemplate() != nil {
			if template, err = overlay(c, template); err != nil {
				return err
			}
			if err := unstructured.SetNestedMap(object.Object, template, path...); err != nil {
				return fmt.Errorf("set the pods of %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		if err := nameAccount(object, path); err != nil {
			return fmt.Errorf("set the service account of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := checkPods(c, object, template); err != nil {
			return err
		}
	}
	return nil
}

// nameAccount sets the service account under both of its names. The API server completes one by
// the other, so that an account whose second name nobody owned would come back when it is taken
// out of the spec.
func nameAccount(object *unstructured.Unstructured, path []string) error {
	names := [][]string{
		append(slices.Clone(path), "spec", "serviceAccountName"),
		append(slices.Clone(path), "spec", "serviceAccount"),
	}
	for i, field := range names {
		if account, _, _ := unstructured.NestedString(object.Object, field...); account != "" {
			return unstructured.SetNestedField(object.Object, account, names[1-i]...)
		}
	}
	return nil
}

// overlay merges the spec's podTemplate into a rendered pod template. The labels that the
// workload selects its pods by stay as they are.
func overlay(c *component.Component, template map[string]any) (map[string]any, error) {
	path := c.Path + ".podTemplate"
	var patch map[string]any
	if err := json.Unmarshal(c.PodTemplate().Raw, &patch); err != nil {
		return nil, &component.FieldError{Field: path, Message: err.Error()}
	}
	if err := values.Decode(path, withoutDirectives(patch), &corev1.PodTemplateSpec{}); err != nil {
		return nil, err
	}
	identity, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	merged, err := strategicpatch.StrategicMergeMapPatch(template, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, &component.FieldError{Field: path, Message: err.Error()}
	}
	result := &corev1.PodTemplateSpec{}
	if err := values.Decode(path, merged, result); err != nil {
		return nil, err
	}
	for name, value := range identity {
		if strings.HasPrefix(name, "app.kubernetes.io/") && result.Labels[name] != value {
			return nil, &component.FieldError{Field: path + ".metadata.labels", Message: fmt.Sprintf("label %s is the operator's own", name)}
		}
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(result)
}

// withoutDirectives returns a copy without the directives of a strategic merge, such as
// $patch: delete.
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

// checkPods finds what only all of a pod's parts together show: two of one name, mounts of
// volumes that are not there.
func checkPods(c *component.Component, object *unstructured.Unstructured, template map[string]any) error {
	pod := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return fmt.Errorf("read the pods of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	mistake := func(format string, args ...any) error {
		return &component.FieldError{Field: c.Path, Message: "its pods have " + fmt.Sprintf(format, args...)}
	}
	volumes := map[string]bool{}
	for i := range pod.Spec.Volumes {
		name := pod.Spec.Volumes[i].Name
		if volumes[name] {
			return mistake("two volumes named %q", name)
		}
		volumes[name] = true
	}
	claims, _, _ := unstructured.NestedSlice(object.Object, "spec", "volumeClaimTemplates")
	for _, claim := range claims {
		name, _, _ := unstructured.NestedString(claim.(map[string]any), "metadata", "name")
		volumes[name] = true
	}
	containers := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			name := list[i].Name
			switch {
			case name == "":
				return mistake("a container without a name")
			case list[i].Image == "":
				return mistake("a container %q without an image", name)
			case containers[name]:
				return mistake("two containers named %q", name)
			}
			containers[name] = true
			paths := map[string]bool{}
			for _, mount := range list[i].VolumeMounts {
				switch {
				case !volumes[mount.Name]:
					return mistake("a container %q that mounts a volume %q, which is not there", name, mount.Name)
				case paths[mount.MountPath]:
					return mistake("a container %q with two mounts at %s", name, mount.MountPath)
				}
				paths[mount.MountPath] = true
			}
		}
	}
	return nil
}

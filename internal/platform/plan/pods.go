// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// podTemplates are the paths of pod templates, by kind.
var podTemplates = map[string][]string{
	"Deployment":  {"spec", "template"},
	"StatefulSet": {"spec", "template"},
	"DaemonSet":   {"spec", "template"},
	"CronJob":     {"spec", "jobTemplate", "spec", "template"},
	// A MongoDBCommunity has only a part of a pod template, which MongoDB's operator merges into its own template.
	object.Foreign.Kind: {"spec", "statefulSet", "spec", "template"},
}

// completePods merges the spec's podTemplate into a component's pods. It refuses pods that the API server would refuse.
func completePods(c *component.Component, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		path, ok := podTemplates[o.GetKind()]
		if !ok {
			continue
		}
		template, _, err := unstructured.NestedMap(o.Object, path...)
		if err != nil {
			return fmt.Errorf("read the pod template of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		// Backup pods use the podTemplate of the backup.
		given, at, overlay := c.PodTemplate(), c.Path+".podTemplate", render.OverlayPods
		if o.GetLabels()[object.LabelBackup] != "" {
			given, at, overlay = c.BackupTemplate(), c.Path+".backup.podTemplate", render.OverlayJobs
		}
		if given != nil {
			if template, err = overlay(at, template, given.Raw); err != nil {
				return err
			}
			if err := unstructured.SetNestedMap(o.Object, template, path...); err != nil {
				return fmt.Errorf("set the pod template of %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
		if err := nameAccount(o, path); err != nil {
			return fmt.Errorf("set the service account of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if object.IsForeign(o) { // the operator of such an object adds images and volumes
			if err := labelRevision(o, path); err != nil {
				return fmt.Errorf("label the pods of %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			continue
		}
		if err := checkPods(c, o, template); err != nil {
			return err
		}
	}
	return nil
}

// labelRevision adds a label to the pods of another operator's resource: a digest of their template, settings and
// version. So the pods show whether that operator has applied the latest spec. The resource's status does not show
// this, and may describe an older StatefulSet.
func labelRevision(o *unstructured.Unstructured, path []string) error {
	template, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return err
	}
	spec, _ := o.Object["spec"].(map[string]any)
	data, err := json.Marshal([]any{template, spec["additionalMongodConfig"], spec["version"]}) // sorts keys
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(o.Object, object.Sum(data), append(slices.Clone(path), "metadata", "labels", object.LabelRevision)...)
}

// nameAccount sets both fields of a pod spec that name the service account. The API server copies each field to the
// other. If the plan set only one field, an account that a user removes from the spec would come back from the other
// field.
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

// checkPods detects errors that only the whole pod shows: duplicate names, and mounts of missing volumes.
func checkPods(c *component.Component, object *unstructured.Unstructured, template map[string]any) error {
	pod := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return fmt.Errorf("read the pod template of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if err := render.CheckClaims(c.Path, &pod.Spec); err != nil {
		return err
	}
	mistake := func(format string, args ...any) error {
		return &render.Error{Field: c.Path, Message: "its pods have " + fmt.Sprintf(format, args...)}
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
					return mistake("a container %q that mounts volume %q, but the pod has no volume of this name", name, mount.Name)
				case paths[mount.MountPath]:
					return mistake("a container %q with two mounts at %s", name, mount.MountPath)
				}
				paths[mount.MountPath] = true
			}
		}
	}
	return nil
}

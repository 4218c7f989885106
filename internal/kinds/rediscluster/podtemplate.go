// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	strictjson "sigs.k8s.io/json"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
)

const podTemplatePath = "spec.podTemplate"

// overlay merges spec.podTemplate into the pods of the StatefulSets. What selects pods stays.
func overlay(template *redisv1.Object, objects []*unstructured.Unstructured) error {
	if template == nil {
		return nil
	}
	var patch map[string]any
	if err := json.Unmarshal(template.Raw, &patch); err != nil {
		return fmt.Errorf("%s: %w", podTemplatePath, err)
	}
	if err := decode(withoutDirectives(patch), &corev1.PodTemplateSpec{}); err != nil {
		return err
	}
	for _, o := range objects {
		if o.GroupVersionKind() != object.StatefulSetKind {
			continue
		}
		if err := overlayOne(patch, o); err != nil {
			return err
		}
	}
	return nil
}

func overlayOne(patch map[string]any, o *unstructured.Unstructured) error {
	spec := o.Object["spec"].(map[string]any)
	pods := spec["template"].(map[string]any)
	selected, _, _ := unstructured.NestedStringMap(spec, "selector", "matchLabels")
	merged, err := strategicpatch.StrategicMergeMapPatch(pods, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return fmt.Errorf("%s: %w", podTemplatePath, err)
	}
	result := &corev1.PodTemplateSpec{}
	if err := decode(merged, result); err != nil {
		return err
	}
	for name, value := range selected {
		if result.Labels[name] != value {
			return fmt.Errorf("%s.metadata.labels: label %s is the operator's own", podTemplatePath, name)
		}
	}
	if result.Labels[object.LabelManagedBy] != object.ManagedBy {
		return fmt.Errorf("%s.metadata.labels: label %s is the operator's own", podTemplatePath, object.LabelManagedBy)
	}
	// The API server completes one name of the account by the other; an old one would come back.
	result.Spec.DeprecatedServiceAccount = result.Spec.ServiceAccountName
	spec["template"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(result)
	return err
}

// decode reads a value strictly.
func decode(value any, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", podTemplatePath, err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowUnknownFields)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("%s: %w", podTemplatePath, err)
	}
	return nil
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

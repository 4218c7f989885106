// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// UnknownImage is used as the agent's image if the operator does not know that image.
const UnknownImage = object.UnknownImage

// IsUnknown reports whether objects are planned with an unknown image of the agent.
func IsUnknown(objects []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return agentImage(o) == UnknownImage })
}

// agentContainers is the path of the init containers in backup workloads. The first one is the agent's container.
var agentContainers = map[string][]string{
	object.CronJobKind.Kind: {"spec", "jobTemplate", "spec", "template", "spec", "initContainers"},
	"Deployment":            {"spec", "template", "spec", "initContainers"},
}

// KeepBackups uses the agent's image of the live backup workloads if the operator does not know the image, so that backups continue. It
// drops planned workloads that do not exist yet, because they would have no image. It copies objects before it changes them.
func KeepBackups(objects []*unstructured.Unstructured, lookup func(kind, name string) (*unstructured.Unstructured, error), owner object.Owner) ([]*unstructured.Unstructured, error) {
	kept := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		if o.GetLabels()[object.LabelBackup] == "" || firstImage(o) != UnknownImage {
			kept = append(kept, o)
			continue
		}
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil {
			return nil, err
		}
		if live == nil || firstImage(live) == "" {
			continue
		}
		o = object.Unfinished(o)
		place := agentContainers[o.GetKind()]
		containers, _, _ := unstructured.NestedSlice(o.Object, place...)
		containers[0].(map[string]any)["image"] = firstImage(live)
		if err := unstructured.SetNestedSlice(o.Object, containers, place...); err != nil {
			return nil, fmt.Errorf("keep the agent's image of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if _, err := object.Finish(o, owner); err != nil {
			return nil, err
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// firstImage returns the image of the first init container.
func firstImage(o *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(o.Object, agentContainers[o.GetKind()]...)
	if len(containers) == 0 {
		return ""
	}
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	return image
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// UnknownImage stands for the agent's image where the operator does not know it, because it runs outside of a pod.
const UnknownImage = "unknown"

// agentOfCronJob is the place of the agent's container among the init containers of a CronJob.
var agentOfCronJob = []string{"spec", "jobTemplate", "spec", "template", "spec", "initContainers"}

// KeepCronJobs gives CronJobs whose agent's image is unknown that of the live ones, so that backups go on. Those that are not
// there are left out: there is nothing that they could run. The objects are not changed, but copied where they differ.
func KeepCronJobs(objects []*unstructured.Unstructured, lookup func(kind, name string) (*unstructured.Unstructured, error), owner object.Owner) ([]*unstructured.Unstructured, error) {
	kept := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		if o.GetKind() != object.CronJobKind.Kind || imageOfCronJob(o) != UnknownImage {
			kept = append(kept, o)
			continue
		}
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil {
			return nil, err
		}
		if live == nil || imageOfCronJob(live) == "" {
			continue
		}
		o = unfinished(o)
		containers, _, _ := unstructured.NestedSlice(o.Object, agentOfCronJob...)
		containers[0].(map[string]any)["image"] = imageOfCronJob(live)
		if err := unstructured.SetNestedSlice(o.Object, containers, agentOfCronJob...); err != nil {
			return nil, fmt.Errorf("keep the agent's image of CronJob %s: %w", o.GetName(), err)
		}
		if _, err := object.Finish(o, owner); err != nil {
			return nil, err
		}
		kept = append(kept, o)
	}
	return kept, nil
}

// imageOfCronJob returns the image of the first init container.
func imageOfCronJob(o *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(o.Object, agentOfCronJob...)
	if len(containers) == 0 {
		return ""
	}
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	return image
}

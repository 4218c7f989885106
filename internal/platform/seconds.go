// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

// containerAgent is the init container with the agent's program, from the chart.
const containerAgent = "d3os-agent"

// keepAgent keeps the agent's image of the live Deployment of a cron job with seconds unless something else of it changes: an upgrade of the
// operator restarts no pod. While the operator does not know the image, a Deployment that does not exist is not created. Objects are copied
// before they change.
func keepAgent(part *reconcile.Part, c *plan.Component, owner object.Owner, in reconcile.Inputs) error {
	i := slices.IndexFunc(part.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	if c.CronJob == nil || !c.CronJob.HasSeconds() || i < 0 {
		return nil
	}
	planned := part.Objects[i]
	live, err := in.Lookup("Deployment", planned.GetName())
	if err != nil {
		return err
	}
	image, isUnknown := agentImage(live), agentImage(planned) == mysql.UnknownImage
	switch {
	case image == "" && isUnknown:
		part.Doubt = &reconcile.Doubt{Hold: true, Culprit: health.Culprit{Kind: "Deployment", Name: planned.GetName(), Reason: "AgentUnknown",
			Message: "the operator does not know the image of its agent, which starts the runs: set RELATED_IMAGE_AGENT in the operator's Deployment"}}
		return nil
	case image == "" || image == agentImage(planned):
		return nil
	}
	objects := make([]*unstructured.Unstructured, len(part.Objects))
	for j, o := range part.Objects {
		objects[j] = object.Unfinished(o)
	}
	if err := setAgentImage(objects[i], image); err != nil {
		return err
	}
	revision, err := object.FinishAll(objects, owner)
	if err != nil {
		return err
	}
	if isUnknown || object.Digest(objects[i]) == object.Digest(live) {
		part.Objects, part.Revision = objects, revision
	}
	return nil
}

var initContainers = []string{"spec", "template", "spec", "initContainers"}

// agentImage returns the image of the agent in a Deployment, or "". The Deployment may be nil.
func agentImage(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(o.Object, initContainers...)
	for _, c := range containers {
		if container, _ := c.(map[string]any); container["name"] == containerAgent {
			image, _ := container["image"].(string)
			return image
		}
	}
	return ""
}

func setAgentImage(o *unstructured.Unstructured, image string) error {
	containers, _, _ := unstructured.NestedSlice(o.Object, initContainers...)
	for _, c := range containers {
		if container, _ := c.(map[string]any); container["name"] == containerAgent {
			container["image"] = image
		}
	}
	if err := unstructured.SetNestedSlice(o.Object, containers, initContainers...); err != nil {
		return fmt.Errorf("keep the agent's image of Deployment %s: %w", o.GetName(), err)
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// agentContainer is the name of the init container that copies the agent.
const agentContainer = "d3os-agent"

// Agent keeps the agent's image in a StatefulSet unchanged during upgrades of the operator. Its value is the name of the
// StatefulSet's annotation that contains the digest of the pod template without the agent's image.
type Agent string

// AgentPods holds the values of a live StatefulSet that Settle compares: the digest in the annotation, and the agent's image.
type AgentPods struct{ Digest, Image string }

// Pods reads AgentPods from a StatefulSet. It returns the zero value if set is nil.
func (a Agent) Pods(set *unstructured.Unstructured) AgentPods {
	if set == nil {
		return AgentPods{}
	}
	found := AgentPods{Digest: set.GetAnnotations()[string(a)]}
	if c := agentIn(set); c != nil {
		found.Image, _ = c["image"].(string)
	}
	return found
}

// Settle keeps the agent's image of the live StatefulSet unless another field of its pod template changes: each version
// of the operator has a new agent, and a new agent alone must not restart members.
func (a Agent) Settle(objects []*unstructured.Unstructured, live AgentPods) error {
	for _, o := range objects {
		c := agentIn(o)
		if o.GroupVersionKind() != object.StatefulSetKind || c == nil {
			continue
		}
		own := c["image"]
		c["image"] = ""
		template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
		text, err := json.Marshal(template)
		if err != nil {
			return fmt.Errorf("compute the digest of the pods of %s: %w", o.GetName(), err)
		}
		digest := object.Sum(text)
		c["image"] = own
		if live.Digest == digest && live.Image != "" {
			c["image"] = live.Image
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[string(a)] = digest
		o.SetAnnotations(annotations)
	}
	return nil
}

// KeepAgent keeps the agent's image of the live Deployment while the rest of the Deployment stays the same, so that an
// upgrade of the operator restarts no pod. It also keeps that image if the operator does not know the image of its agent.
// If there is no live Deployment either, KeepAgent adds a doubt to the part, so that no Deployment is created. KeepAgent
// copies the objects of the part before it changes them.
func KeepAgent(part *reconcile.Part, owner object.Owner, in reconcile.Inputs) error {
	i := slices.IndexFunc(part.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	if i < 0 || agentIn(part.Objects[i]) == nil {
		return nil
	}
	planned := part.Objects[i]
	live, err := in.Lookup("Deployment", planned.GetName())
	if err != nil {
		return err
	}
	image, isUnknown := agentImage(live), agentImage(planned) == object.UnknownImage
	switch {
	case image == "" && isUnknown:
		part.Doubt = &reconcile.Doubt{Hold: true, Culprit: health.Culprit{Kind: "Deployment", Name: planned.GetName(), Reason: "AgentUnknown",
			Message: "the operator does not know the image of the agent that starts the runs: set RELATED_IMAGE_AGENT in the operator's Deployment"}}
		return nil
	case image == "" || image == agentImage(planned):
		return nil
	}
	objects := make([]*unstructured.Unstructured, len(part.Objects))
	for j, o := range part.Objects {
		objects[j] = object.Unfinished(o)
	}
	agentIn(objects[i])["image"] = image
	revision, err := object.FinishAll(objects, owner)
	if err != nil {
		return err
	}
	if isUnknown || object.Digest(objects[i]) == object.Digest(live) {
		part.Objects, part.Revision = objects, revision
	}
	return nil
}

// HasAgent reports whether objects contain a Deployment with the init container that copies the agent.
func HasAgent(objects []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" && agentIn(o) != nil })
}

// agentImage returns the image of the agent in a workload, or "". The workload may be nil.
func agentImage(workload *unstructured.Unstructured) string {
	if workload == nil {
		return ""
	}
	image, _ := agentIn(workload)["image"].(string)
	return image
}

// agentIn returns a workload's init container that copies the agent, or nil.
func agentIn(set *unstructured.Unstructured) map[string]any {
	spec, _ := set.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	containers, _ := pod["initContainers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok && c["name"] == agentContainer {
			return c
		}
	}
	return nil
}

// Replicas returns spec.replicas of a StatefulSet, or 0 if set is nil.
func Replicas(set *unstructured.Unstructured) int {
	if set == nil {
		return 0
	}
	pods, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return int(pods)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// annotationPods on the StatefulSet is the digest of its pods' template without the agent's image.
const annotationPods = "etcd.database.coreos.com/pods"

// agentContainer is the init container that brings the agent.
const agentContainer = "d3os-agent"

// setPods are what a live StatefulSet says of its pods.
type setPods struct{ Digest, Agent string }

// podsOf reads it from a StatefulSet, which may be nil.
func podsOf(set *unstructured.Unstructured) setPods {
	if set == nil {
		return setPods{}
	}
	found := setPods{Digest: set.GetAnnotations()[annotationPods]}
	if c := agentIn(set); c != nil {
		found.Agent, _ = c["image"].(string)
	}
	return found
}

// settle lets the StatefulSet keep the agent's image that it has, unless its pods change for another reason: every version
// of the operator brings an agent, and a new agent alone is no reason to restart members.
func settle(objects []*unstructured.Unstructured, live setPods) error {
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
		if live.Digest == digest && live.Agent != "" {
			c["image"] = live.Agent
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationPods] = digest
		o.SetAnnotations(annotations)
	}
	return nil
}

// agentIn returns the container of a StatefulSet that brings the agent, or nil.
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

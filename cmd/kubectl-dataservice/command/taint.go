// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/plugin/why"
)

// nodesRead is the maximum number of nodes that are searched for a taint.
const nodesRead = 500

// addTaint adds to a diagnosis the name of a node whose taint excludes the pod, if the scheduler's message counts such nodes. For a user
// who may not list nodes, it does nothing.
func (c *cluster) addTaint(ctx context.Context, f *why.Facts, d *why.Diagnosis) {
	if d.Object == nil || d.Object.Kind != "Pod" || !strings.Contains(d.Cause+d.Detail, "untolerated taint") {
		return
	}
	at := slices.IndexFunc(f.Pods, func(pod *corev1.Pod) bool { return pod.Name == d.Object.Name })
	if at < 0 {
		return
	}
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: nodesRead})
	if err != nil {
		return
	}
	if text := taintOf(f.Pods[at], list.Items); text != "" {
		d.Do = slices.Insert(d.Do, 0, text)
	}
}

// taintOf returns the name of the first node with a taint that excludes a pod, among the nodes that match the pod's node selector. It
// returns "" for none.
func taintOf(pod *corev1.Pod, nodes []corev1.Node) string {
	for i := range nodes {
		node := &nodes[i]
		if !admits(pod, node) {
			continue
		}
		for _, taint := range node.Spec.Taints {
			if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, &taint) {
				return fmt.Sprintf("node %s has the taint %s, which the pod does not tolerate: add the taint to `tolerations`, or remove the taint from the node",
					node.Name, taint.ToString())
			}
		}
	}
	return ""
}

func admits(pod *corev1.Pod, node *corev1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	return true
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), taint, true) })
}

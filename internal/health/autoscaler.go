// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	kindAutoscaler = "HorizontalPodAutoscaler"
	// ReasonTooManyReplicas is the reason of an autoscaler that requests more pods than its maximum.
	ReasonTooManyReplicas = "TooManyReplicas"
	// autoscalerDeadline is the time after which a status reports an autoscaler. While pods start, its conditions change often.
	// (Metrics of new pods are available after one or two minutes.)
	autoscalerDeadline = 5 * time.Minute
	// reasonScalingDisabled is the reason of an autoscaler whose workload has 0 pods: it does not scale.
	reasonScalingDisabled = "ScalingDisabled"
)

// addAutoscaler requests a change of an autoscaler that cannot set the number of pods, has no metrics, or requests more pods than
// its maximum.
func (s *State) addAutoscaler(o *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, of := range []struct{ kind, status string }{{"AbleToScale", "False"}, {"ScalingActive", "False"}, {"ScalingLimited", "True"}} {
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			reason := fmt.Sprint(condition["reason"])
			if condition["type"] != of.kind || condition["status"] != of.status || reason == reasonScalingDisabled || of.kind == "ScalingLimited" && reason != ReasonTooManyReplicas {
				continue
			}
			s.request(Culprit{o.GetKind(), o.GetName(), reason, Essence(fmt.Sprint(condition["message"]))}, since(condition).Add(autoscalerDeadline))
			return
		}
	}
}

// since returns the time of a condition's last transition; the zero time if the condition has none.
func since(condition map[string]any) time.Time {
	at, _ := time.Parse(time.RFC3339, fmt.Sprint(condition["lastTransitionTime"])) // an unreadable time counts as past
	return at
}

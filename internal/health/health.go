// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health judges how a component is, from its live objects and pods.
// It is pure. Whether an object is settled is kstatus's judgement; this
// package adds which pod is to blame, and why.
package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is how a component is.
type State struct {
	// Settled: every object has reached what was last asked of it, and all pods are ready.
	Settled bool
	// Ready and Desired count the pods of the workload.
	Ready, Desired int32
	// Problem says which pod or object does not come up, and why; empty while all is well or
	// merely takes its time.
	Problem string
	// Hint says what is not settled, for a component that should be.
	Hint string
	// Note is what a person may want to know while all is well: the last run of a cron job.
	Note string
}

// Of judges a component from its live objects and its pods.
func Of(objects []*unstructured.Unstructured, pods []*corev1.Pod) State {
	state := State{Settled: true}
	for _, object := range objects {
		state.add(object)
	}
	if !state.Settled {
		state.blame(pods)
	}
	return state
}

func (s *State) add(object *unstructured.Unstructured) {
	where := object.GetKind() + " " + object.GetName()
	result, err := status.Compute(object)
	switch {
	case err != nil:
		s.Settled = false
		s.Problem = fmt.Sprintf("%s: its status cannot be read: %v", where, err)
	case result.Status == status.FailedStatus:
		s.Settled = false
		s.Problem = fmt.Sprintf("%s: %s", where, result.Message)
	case result.Status != status.CurrentStatus:
		s.Settled = false
		s.Hint = fmt.Sprintf("%s: %s", where, result.Message)
	}
	s.count(object)
}

// count reads the numbers of pods of a workload.
func (s *State) count(object *unstructured.Unstructured) {
	number := func(fields ...string) int32 {
		n, _, _ := unstructured.NestedInt64(object.Object, fields...)
		return int32(n) //nolint:gosec // the API has int32 here
	}
	switch object.GetKind() {
	case "Deployment", "StatefulSet":
		s.Desired, s.Ready = number("spec", "replicas"), number("status", "readyReplicas")
	case "CronJob":
		s.Note = lastRun(object)
		return
	case "DaemonSet":
		s.Desired, s.Ready = number("status", "desiredNumberScheduled"), number("status", "numberReady")
	default:
		return
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		// A quota, a limit range or an admission rule refuses the pods.
		if condition["type"] == "ReplicaFailure" && condition["status"] == "True" && !s.Settled {
			s.Problem = fmt.Sprintf("%s %s: %v: %v", object.GetKind(), object.GetName(), condition["reason"], condition["message"])
		}
	}
}

// blame names the first pod that does not come up; what a pod says of itself is closer to the
// cause than what its workload says.
func (s *State) blame(pods []*corev1.Pod) {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if problem := PodProblem(pod); problem != "" {
			s.Problem = fmt.Sprintf("pod %s: %s", pod.Name, problem)
			return
		}
	}
	for _, pod := range pods {
		if hint := podHint(pod); hint != "" {
			s.Hint = fmt.Sprintf("pod %s: %s", pod.Name, hint)
			return
		}
	}
}

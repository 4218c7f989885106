// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/plugin"
)

// Operator is the state of the operator, as far as the user may read it.
type Operator struct {
	Deployment *unstructured.Unstructured
	Pods       []*corev1.Pod
	// Events are the events in the operator's namespace with health.ReasonOperator.
	Events []corev1.Event
}

// problem returns the reason why no pod of the operator is ready, and the object to examine. It returns "" if a pod is ready or is
// starting.
func (o *Operator) problem() (string, *Object) {
	if o == nil || o.Deployment == nil {
		return "", nil
	}
	if slices.ContainsFunc(o.Pods, isReady) {
		return "", nil
	}
	state := health.Assess([]*unstructured.Unstructured{o.Deployment}, o.Pods)
	culprit, text := state.Culprit, "the operator is not ready: "+state.Problem
	switch e := o.own(); {
	case e != nil:
		culprit, text = health.Culprit{Kind: "Pod", Name: e.InvolvedObject.Name}, e.Message
	case state.Desired == 0:
		culprit = health.Culprit{Kind: o.Deployment.GetKind(), Name: o.Deployment.GetName()}
		text = fmt.Sprintf("the operator does not run: Deployment %s has 0 replicas", culprit.Name)
	case state.Problem == "":
		return "", nil // a pod is starting
	}
	namespace := o.Deployment.GetNamespace()
	return text, &Object{Kind: culprit.Kind, Name: culprit.Name, Elsewhere: true, Command: plugin.Look(namespace, culprit.Kind, culprit.Name)}
}

// own returns the operator's event about one of its pods, or nil. If there are several, it returns the first in the order of the messages,
// so that each run prints the same event.
func (o *Operator) own() *corev1.Event {
	var first *corev1.Event
	for i := range o.Events {
		e := &o.Events[i]
		isOwn := e.Reason == health.ReasonOperator && slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool { return pod.Name == e.InvolvedObject.Name })
		if isOwn && (first == nil || strings.Compare(e.Message, first.Message) < 0) {
			first = e
		}
	}
	return first
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && health.IsReady(pod)
}

// withOperator adds the operator's problem to a diagnosis: as the cause if there is no other problem, otherwise as advice.
func (f *Facts) withOperator(d *Diagnosis) *Diagnosis {
	text, look := f.Operator.problem()
	switch {
	case text == "":
		return d
	case d.Wrong:
		d.Do = append(d.Do, text+": "+look.Command)
		return d
	}
	return &Diagnosis{
		Wrong: true, Ready: d.Ready, Cause: text, Object: look, Do: advice(health.ReasonOperator),
	}
}

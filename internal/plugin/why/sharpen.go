// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

// reasonAccount is the reason of the pods of MongoDB's operator if their service account does not exist.
const reasonAccount = "AccountMissing"

// stuck is the time after the grace period for which a pod may still exist.
const stuck = 30 * time.Second

// sharpen replaces a vague cause (not ready, not bound, pods missing) by the text of events. It also names causes that no object's state
// shows: a node that no longer exists, or a third party that does not answer.
func (f *Facts) sharpen(culprit *health.Culprit, text *string, c *dsv1.ComponentStatus) {
	if pod := f.lostPod(); pod != nil && (culprit.Name == "" || culprit.Kind != "Pod" || culprit.IsVague()) {
		*culprit = health.Culprit{Kind: "Pod", Name: pod.Name, Reason: "NodeLost"}
		lost := fmt.Sprintf("pod %s: NodeLost: node %s does not answer: the pod should have ended %s ago", pod.Name, pod.Spec.NodeName,
			plugin.Age(pod.DeletionTimestamp, f.Now))
		if c.Kind == managed && *text != "" {
			lost += "; " + *text // the effect of the lost pod on the cluster
		}
		*text = lost
		return
	}
	if c.Kind == managed && culprit.Kind != "Pod" {
		f.lookInside(culprit, text)
	}
	if culprit.IsVague() {
		if e := f.decisive(c); e != nil {
			kind, name := e.InvolvedObject.Kind, e.InvolvedObject.Name
			if kind == "ReplicaSet" || name == "" {
				kind, name = f.workload(kind, name)
			}
			*culprit, *text = health.CulpritOf(kind, name, e)
			if slices.ContainsFunc(f.Objects, object.IsForeign) && strings.Contains(e.Message, "error looking up service account") {
				culprit.Reason = reasonAccount
			}
		}
	}
	if c.Kind == "ThirdParty" && (culprit.Reason == health.ReasonUnhealthy || culprit.Reason == "ContainersNotReady" || culprit.Reason == "ProgressDeadlineExceeded") {
		_, answer, found := strings.Cut(*text, " probe failed: ")
		if !found {
			answer = *text
		}
		*text = fmt.Sprintf("the third party%s does not answer: %s", f.url(c.Name), answer)
		culprit.Reason = "ThirdParty"
	}
}

// lookInside replaces the culprit if the component is a resource, such as a RedisCluster, and one of its pods causes
// the problem. That pod becomes the culprit.
func (f *Facts) lookInside(culprit *health.Culprit, text *string) {
	state := health.Assess(f.Objects, f.Pods)
	if state.Culprit.Kind != "Pod" {
		return
	}
	*culprit = state.Culprit
	before, after, repeated := strings.Cut(*text, state.Problem)
	switch {
	case repeated && header.MatchString(before):
		*text = state.Problem + after
	case repeated:
	case strings.Contains(*text, culprit.Name+": ") && f.runsAgain(culprit.Name):
		// If a container runs again, the resource explains more than the container's last termination.
	default:
		*text = state.Problem + "; " + *text
	}
}

// header matches the text before the message of a resource: its kind, name and reason.
var header = regexp.MustCompile(`^[A-Za-z]+ [a-z0-9.-]+: [A-Za-z]+: $`)

// runsAgain reports whether all containers of a pod run.
func (f *Facts) runsAgain(name string) bool {
	pod := f.pod(name)
	return pod != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
}

// decisive returns the event that explains most about the component, or nil. It skips events that are older than the state of the
// component, because they belong to an earlier fault.
func (f *Facts) decisive(c *dsv1.ComponentStatus) *corev1.Event {
	return health.Decisive(f.about(f.concerns), func(e *corev1.Event) bool { return !outdated(e, c) && f.applies(e) })
}

// outdated reports whether an event happened before the component entered its present state.
func outdated(e *corev1.Event, c *dsv1.ComponentStatus) bool {
	const slack = 2 * time.Minute // the operator reacts later than the kubelet
	return c.LastTransitionTime != nil && plugin.Last(e).Add(slack).Before(c.LastTransitionTime.Time)
}

// applies reports whether the object of an event is still unhealthy.
func (f *Facts) applies(e *corev1.Event) bool {
	if e.InvolvedObject.Kind != "Pod" {
		return true
	}
	pod := f.pod(e.InvolvedObject.Name)
	return pod != nil && health.AppliesTo(e, pod)
}

// claimed reports whether a pod of the component uses a claim.
func (f *Facts) claimed(name string) bool {
	return slices.ContainsFunc(f.Pods, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
		})
	})
}

// workload returns the Deployment of a ReplicaSet. Users know the Deployment, and it outlives the ReplicaSet.
func (f *Facts) workload(kind, name string) (string, string) {
	for _, o := range f.Objects {
		if o.GetKind() == "Deployment" && strings.HasPrefix(name, o.GetName()+"-") {
			return o.GetKind(), o.GetName()
		}
	}
	return kind, name
}

// lostPod returns a pod whose deletion does not end because its node does not answer.
func (f *Facts) lostPod() *corev1.Pod {
	for _, pod := range f.Pods {
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && f.Now.Sub(pod.DeletionTimestamp.Time) > stuck {
			return pod
		}
	}
	return nil
}

// url returns the address of a third party from the spec.
func (f *Facts) url(component string) string {
	spec := &f.DataService.Spec
	var m *dsv1.ThirdParty
	switch {
	case component == "mysql" && spec.MySQL != nil:
		m = spec.MySQL.ThirdParty
	case component == "uuc" && spec.UUC != nil:
		m = spec.UUC.ThirdParty
	case component == "eureka" && spec.Eureka != nil:
		m = spec.Eureka.ThirdParty
	case component == "redis" && spec.Redis != nil && spec.Redis.ThirdParty != nil:
		return " " + spec.Redis.ThirdParty.URL
	case component == "mongodb" && spec.MongoDB != nil && spec.MongoDB.ThirdParty != nil:
		return " " + spec.MongoDB.ThirdParty.URL
	case component == "etcd" && spec.Etcd != nil && spec.Etcd.ThirdParty != nil:
		return " " + spec.Etcd.ThirdParty.URL
	}
	if m == nil || m.URL == "" {
		return ""
	}
	return " " + m.URL
}

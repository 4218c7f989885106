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
	"k8s.io/apimachinery/pkg/api/meta"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/cli/screen"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Diagnosis is why a DataService, or a resource by itself, is not ready.
type Diagnosis struct {
	Ready bool `json:"ready"`
	// Cause is the root cause in one sentence: component, object, reason, message.
	Cause string `json:"cause"`
	// Object is the object to look at; nil when it is none of the cluster's.
	Object *Object `json:"object,omitempty"`
	// Way leads from a component that waits to the one that is to blame.
	Way []string `json:"way,omitempty"`
	// Waiting are all components that wait for that one.
	Waiting []string `json:"waiting,omitempty"`
	// State says how each container of the pod is.
	State []string `json:"state,omitempty"`
	// Log are the last lines of the container, and LogCommand shows more of them.
	Log        []string `json:"log,omitempty"`
	LogCommand string   `json:"logCommand,omitempty"`
	// Events are the last ones about the component's objects.
	Events []corev1.Event `json:"events,omitempty"`
	// Do says what a person can do.
	Do []string `json:"do,omitempty"`
}

// Object is an object to look at.
type Object struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Command string `json:"command"`
}

const (
	// reports is how long the operator may take until it reports on a new generation.
	reports = 10 * time.Second
	// lastEvents and lastLines are how many events, and lines of a log, are shown.
	lastEvents = 5
	lastLines  = 6
)

// Explain says why a DataService, the component that is asked about, or a resource by itself is not ready.
func Explain(f *Facts) *Diagnosis {
	ds := f.DataService
	switch {
	case ds.DeletionTimestamp != nil:
		return f.deleting()
	case !screen.Seen(ds) || ds.Status.Phase == "":
		return f.notSeen()
	}
	if c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionDegraded); c != nil && c.Status == "True" && c.Reason != dsv1.ReasonComponentFailing {
		if d := f.failure(c.Reason, c.Message); d != nil {
			return d
		}
	}
	blamed, way := Blamed(ds, f.Component)
	if blamed == nil || blamed.Phase == dsv1.PhaseRunning {
		return f.well(blamed)
	}
	if broken := blamed.Phase == dsv1.PhaseDegraded || blamed.Phase == dsv1.PhaseFailed; ds.Spec.Paused && !broken {
		return f.paused()
	}
	d := f.component(blamed)
	if len(way) > 1 {
		d.Way = way
	}
	d.Waiting = waiting(ds, blamed.Name)
	if ds.Spec.Paused {
		d.Cause += "; the " + f.kind() + " is paused, so the operator mends nothing"
		d.Do = append(d.Do, f.resume())
	}
	return d
}

func (f *Facts) object(kind, name string) *Object {
	return &Object{Kind: kind, Name: name, Command: screen.Look(f.DataService.Namespace, kind, name)}
}

func (f *Facts) deleting() *Diagnosis {
	ds := f.DataService
	d := &Diagnosis{
		Cause:  fmt.Sprintf("%s is being deleted, for %s", ds.Name, screen.Age(ds.DeletionTimestamp, f.Now)),
		Object: f.self(),
		Do:     []string{"nothing, as a rule: Kubernetes removes the objects; claims and Secrets that are retained stay"},
	}
	if len(ds.Finalizers) > 0 {
		d.Cause += "; it waits for the finalizers " + strings.Join(ds.Finalizers, ", ")
		d.Do = []string{"the operator sets no finalizer of its own: find out who set these, and why they do not end"}
	}
	return d
}

// notSeen: the operator does not run, does not watch this namespace, or has not come to it yet.
func (f *Facts) notSeen() *Diagnosis {
	ds := f.DataService
	_, when := changedBy(ds, "spec")
	if when == nil {
		when = &ds.CreationTimestamp
	}
	d := &Diagnosis{Object: f.self()}
	if f.Now.Sub(when.Time) < reports {
		d.Cause = fmt.Sprintf("generation %d was written %s ago; the operator has not reported on it yet", ds.Generation, screen.Age(when, f.Now))
		d.Do = []string{"ask again in some seconds"}
		return d
	}
	d.Cause = fmt.Sprintf("the operator has not reported on generation %d for %s: it does not run, or does not watch namespace %s",
		ds.Generation, screen.Age(when, f.Now), ds.Namespace)
	d.Object = &Object{Kind: "Deployment", Name: "d3os-operator-controller-manager", Command: "kubectl get deployments --all-namespaces -l app.kubernetes.io/name=d3os-operator"}
	d.Do = []string{"start the operator, or read its log; what runs already goes on running"}
	return d
}

// failure: the spec cannot be carried out. It is nil when a component's own error says more.
func (f *Facts) failure(reason, message string) *Diagnosis {
	for _, c := range f.DataService.Status.Components {
		if c.Phase == dsv1.PhaseFailed && c.Culprit != nil {
			return nil
		}
	}
	d := &Diagnosis{Cause: reason + ": " + message, Object: f.object(dsv1.Kind, f.DataService.Name), Do: advice(reason)}
	for _, named := range objectNamed.FindAllStringSubmatch(message, -1) {
		if d.Object.Kind == dsv1.Kind || named[1] == "Secret" { // a claim is named with the Secret that opens it
			d.Object = f.object(named[1], named[2])
		}
	}
	d.Events = f.last(func(kind, name string) bool { return kind == dsv1.Kind && name == f.DataService.Name })
	return d
}

// objectNamed finds the object that a message of the operator names: Service auth, or Service data-prod/auth.
var objectNamed = regexp.MustCompile(`\b(Secret|ConfigMap|PersistentVolumeClaim|Service|Deployment|StatefulSet|DaemonSet|CronJob|HorizontalPodAutoscaler|` +
	`PodDisruptionBudget|Ingress|NetworkPolicy|RedisCluster|EtcdCluster) (?:[a-z0-9-]+/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

func (f *Facts) well(c *dsv1.ComponentStatus) *Diagnosis {
	ds := f.DataService
	d := &Diagnosis{Ready: true, Cause: fmt.Sprintf("nothing is wrong: all components of %s are ready (%s)", ds.Name, ds.Status.Ready)}
	if f.Component != "" && c != nil {
		d.Cause = fmt.Sprintf("nothing is wrong: %s is ready (%d/%d pods)", c.Name, c.Ready, c.Desired)
	}
	if c != nil && c.Message != "" {
		d.Cause += "; " + c.Message
	}
	if ds.Spec.Paused {
		return f.paused()
	}
	return d
}

// paused: the operator does nothing, and no component is known to be broken.
func (f *Facts) paused() *Diagnosis {
	ds, since, parts := f.DataService, "", "components"
	field := "paused"
	if f.Resource != nil {
		parts, field = "pods", object.PauseField(f.Resource)
	}
	if who, when := changedBy(ds, field); when != nil {
		since = fmt.Sprintf(", since %s, by %s", screen.Age(when, f.Now), who)
	}
	return &Diagnosis{
		Cause:  fmt.Sprintf("%s is paused%s: the operator creates, heals and updates nothing; %s ready: %s", ds.Name, since, parts, ds.Status.Ready),
		Object: f.self(),
		Do:     []string{f.resume()},
	}
}

func (f *Facts) last(is func(kind, name string) bool) []corev1.Event {
	found := f.about(is)
	return found[max(0, len(found)-lastEvents):]
}

// component says what is wrong with a component that waits for no other.
func (f *Facts) component(c *dsv1.ComponentStatus) *Diagnosis {
	culprit := f.culprit()
	text := c.Message
	if state := health.Assess(f.Objects, f.Pods); c.Culprit == nil {
		switch {
		case state.Problem != "":
			text = state.Problem
		case state.Hint != "":
			text = state.Hint
		}
	}
	f.sharpen(&culprit, &text, c)
	d := &Diagnosis{Cause: strings.TrimSuffix(c.Name+": "+text, ": "), Do: advice(culprit.Reason)}
	if text == "" {
		d.Cause = fmt.Sprintf("%s is %s for %s: %d of %d pods are ready", c.Name, c.Phase, screen.Age(c.LastTransitionTime, f.Now), c.Ready, c.Desired)
	}
	if culprit.Name != "" {
		d.Object = f.object(culprit.Kind, culprit.Name)
	}
	if pod := f.pod(culprit.Name); culprit.Kind == "Pod" && pod != nil {
		d.State = states(pod, f.Now)
	}
	if source := Source(f); source != nil {
		d.Log = f.Log[max(0, len(f.Log)-lastLines):]
		if f.LogError != "" {
			d.Log = []string{f.LogError}
		}
		previous := ""
		if source.Previous {
			previous = " --previous"
		}
		d.LogCommand = fmt.Sprintf("kubectl -n %s logs %s -c %s%s", f.DataService.Namespace, source.Pod, source.Name, previous)
		if line := telling(f.Log); line != "" && !strings.Contains(d.Cause, line) {
			d.Cause += "; its log says: " + line
		}
	}
	d.Events = f.last(f.concerns)
	if len(d.Do) == 0 {
		d.Do = advice(f.fallback(c))
	}
	return d
}

// fallback is what advice there is where the reason of the culprit has none.
func (f *Facts) fallback(c *dsv1.ComponentStatus) string {
	degraded := meta.FindStatusCondition(f.DataService.Status.Conditions, dsv1.ConditionDegraded)
	switch {
	case c.Phase == dsv1.PhaseFailed && degraded != nil:
		return degraded.Reason
	case c.Kind == "ThirdParty":
		return "ThirdParty"
	}
	return "Waiting"
}

// words of a log line that tell of an error.
var words = regexp.MustCompile(`(?i)\b(error|exception|fatal|panic|denied|refused|failed|failure|cannot|unable|no such|not found|invalid|out ?of ?memory)\b`)

// telling is the last line of a log that tells of an error, or nothing.
func telling(log []string) string {
	for _, line := range slices.Backward(log) {
		if words.MatchString(line) {
			const enough = 200
			if line = strings.TrimSpace(line); len(line) > enough {
				line = strings.ToValidUTF8(line[:enough], "") + "…"
			}
			return line
		}
	}
	return ""
}

// states says how each container of a pod is, and how it ended last.
func states(pod *corev1.Pod, now time.Time) []string {
	var lines []string
	if pod.Spec.NodeName != "" {
		lines = append(lines, fmt.Sprintf("pod %s is %s on node %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName))
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		line := "container " + c.Name + ": "
		switch {
		case c.State.Waiting != nil:
			line += "waiting, " + c.State.Waiting.Reason
		case c.State.Terminated != nil:
			line += fmt.Sprintf("ended with exit code %d (%s)", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
		case c.State.Running != nil:
			line += "runs for " + screen.Age(&c.State.Running.StartedAt, now)
			if !c.Ready {
				line += ", not ready"
			}
		}
		if c.RestartCount > 0 {
			line += fmt.Sprintf(", %d restarts", c.RestartCount)
		}
		if ended := c.LastTerminationState.Terminated; ended != nil {
			line += fmt.Sprintf("; ended %s ago with exit code %d (%s)", screen.Age(&ended.FinishedAt, now), ended.ExitCode, ended.Reason)
		}
		lines = append(lines, line)
	}
	return lines
}

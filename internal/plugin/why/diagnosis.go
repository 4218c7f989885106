// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/plugin"
)

// Diagnosis explains why a DataService or a single resource is not ready.
type Diagnosis struct {
	// Ready reports whether the subject is ready.
	Ready bool `json:"ready"`
	// Wrong reports whether a user must act. It is false for a rollout in progress.
	Wrong bool `json:"wrong"`
	// Cause is the root cause in at most 120 characters: component, object, reason, message.
	Cause string `json:"cause"`
	// Detail is the complete cause if Cause was truncated.
	Detail string `json:"detail,omitempty"`
	// Others are the causes of further problems. Cause states their number.
	Others []string `json:"others,omitempty"`
	// Policy names the field that an admission policy changed, unless Cause names it.
	Policy string `json:"policy,omitempty"`
	// Object is the object to examine; nil if the cluster has no such object.
	Object *Object `json:"object,omitempty"`
	// Way is the path from a waiting component to the component that is the cause.
	Way []string `json:"way,omitempty"`
	// Waiting are all components that wait for the last component of Way.
	Waiting []string `json:"waiting,omitempty"`
	// State lists the state of each container of the pod.
	State []string `json:"state,omitempty"`
	// Log contains the last lines of the container's log. LogCommand prints more lines.
	Log        []string `json:"log,omitempty"`
	LogCommand string   `json:"logCommand,omitempty"`
	// Events are the last events of the component's objects.
	Events []corev1.Event `json:"events,omitempty"`
	// Do lists the user's next steps.
	Do []string `json:"do,omitempty"`

	// about is the problem that Cause is about, with the component or the culprit; empty if the status reports no such problem.
	about platform.Problem
}

// Object is an object to examine.
type Object struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Command string `json:"command"`
	// Elsewhere reports whether the object is in another namespace, which the user may not be allowed to read.
	Elsewhere bool `json:"-"`
}

const (
	// reports is the time within which the operator reports the state of a new generation.
	reports = 10 * time.Second
	// lastEvents and lastLines limit the printed events and log lines.
	lastEvents = 5
	lastLines  = 6
	// causeLength limits the characters of the first line.
	causeLength = 120
	// patience is the time that a rollout may take before it counts as a fault: the default of progressDeadlineSeconds.
	patience = 10 * time.Minute
	// fine begins a cause if no problem is known.
	fine = "nothing is wrong: "
)

// Explain returns the reason why the subject is not ready. The subject is a DataService, a component or a single resource.
func Explain(f *Facts) *Diagnosis {
	d := f.withOperator(explain(f))
	if len(f.Refused) > 0 {
		slices.Sort(f.Refused)
		d.Do = append(d.Do, fmt.Sprintf("ask for the right to list %s: you may not read them, so there may be more problems than this one", strings.Join(slices.Compact(f.Refused), ", ")))
	}
	more := ""
	if n := len(d.Others); n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	if short := health.Clip(d.Cause, causeLength-len(more)); short != d.Cause {
		d.Cause, d.Detail = short, d.Cause
	}
	d.Cause += more
	d.Policy = f.policy(d.Cause)
	return d
}

func explain(f *Facts) *Diagnosis {
	ds := f.DataService
	switch {
	case f.Namespace != nil && f.Namespace.DeletionTimestamp != nil:
		return f.ending()
	case ds.DeletionTimestamp != nil:
		return f.deleting()
	case !plugin.Seen(ds) || ds.Status.Phase == "":
		return f.notSeen()
	}
	if c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionDegraded); c != nil && c.Status == "True" && c.Reason != dsv1.ReasonComponentFailing {
		if d := f.failure(c.Reason, c.Message); d != nil {
			d.Others = f.others(d)
			return d
		}
	}
	blamed, way := Blamed(ds, f.Component)
	if d := f.hibernating(blamed); d != nil {
		return d
	}
	if blamed == nil || blamed.Phase == dsv1.PhaseRunning {
		d := f.running(blamed)
		d.Others = f.others(d)
		return d
	}
	if broken := blamed.Phase == dsv1.PhaseDegraded || blamed.Phase == dsv1.PhaseFailed; ds.Spec.Paused && !broken {
		d := f.paused()
		d.Others = f.others(d)
		return d
	}
	d := f.notRunning(blamed)
	d.Others = f.others(d)
	if len(way) > 1 {
		d.Way = way
	}
	d.Waiting = waiting(ds, blamed.Name)
	if ds.Spec.Paused {
		d.Cause += "; the " + f.kind() + " is paused, so the operator repairs nothing"
		d.Do = append(d.Do, f.resume())
	}
	return d
}

// notRunning explains a component that is not running. If the component makes progress, a problem of another component, or of the backups,
// comes first, except after a message of the component: status.message has the same order.
func (f *Facts) notRunning(c *dsv1.ComponentStatus) *Diagnosis {
	d := f.importing(c)
	switch {
	case d != nil:
	case f.isUnderway(c):
		d = f.underway(c)
	default:
		d = f.component(c)
	}
	switch {
	case d.Wrong || f.Component != "" || len(platform.Problems(&f.DataService.Status)) == 0:
	case c.Message != "":
		d.Wrong, d.Cause = true, strings.TrimPrefix(d.Cause, fine)
	default:
		d = f.inStatus(nil)
		d.Ready = false
	}
	return d
}

func (f *Facts) object(kind, name string) *Object {
	return &Object{Kind: kind, Name: name, Command: plugin.Look(f.DataService.Namespace, kind, name)}
}

func (f *Facts) deleting() *Diagnosis {
	ds := f.DataService
	d := &Diagnosis{
		Wrong:  true,
		Cause:  fmt.Sprintf("%s is being deleted, for %s", ds.Name, plugin.Age(ds.DeletionTimestamp, f.Now)),
		Object: f.Self(),
		Do:     []string{"nothing, as a rule: Kubernetes removes the objects; claims and Secrets that are retained stay"},
	}
	if len(ds.Finalizers) > 0 {
		d.Cause += "; it waits for the finalizers " + strings.Join(ds.Finalizers, ", ")
		d.Do = []string{"the operator sets no finalizer: find out who set these finalizers, and why they are not removed"}
	}
	return d
}

// ending explains a namespace that is being deleted. The namespace's conditions list its remaining objects.
func (f *Facts) ending() *Diagnosis {
	n := f.Namespace
	d := &Diagnosis{
		Wrong:  true,
		Cause:  fmt.Sprintf("namespace %s is being deleted, for %s", n.Name, plugin.Age(n.DeletionTimestamp, f.Now)),
		Object: &Object{Kind: "Namespace", Name: n.Name, Command: "kubectl describe namespace " + n.Name},
		Do:     []string{"nothing, as a rule: Kubernetes removes the objects of the namespace; the operator creates nothing in this namespace"},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue {
			d.Cause += ": " + strings.TrimPrefix(c.Message, "Some content in the namespace has ")
			d.Do = []string{"find out who set the finalizer that the message names, and why it is not removed"}
		}
	}
	return d
}

// notSeen explains a resource that the operator has not observed: the operator does not run, does not watch this namespace, or has not
// processed the resource yet.
func (f *Facts) notSeen() *Diagnosis {
	ds := f.DataService
	_, when := changedBy(ds, "spec")
	if when == nil {
		when = &ds.CreationTimestamp
	}
	d := &Diagnosis{Object: f.Self()}
	if text, look := f.Operator.problem(); text != "" {
		d.Wrong, d.Cause, d.Object, d.Do = true, text, look, advice(health.ReasonOperator)
		return d
	}
	about := f.about(func(kind, name string) bool { return kind == f.kind() && name == ds.Name })
	for i := range slices.Backward(about) {
		if e := &about[i]; e.Reason == health.ReasonTooLarge && !plugin.Last(e).Before(when) {
			d.Wrong, d.Cause, d.Do = true, e.Reason+": "+e.Message, advice(e.Reason)
			return d
		}
	}
	if f.Now.Sub(when.Time) < reports {
		d.Cause = fmt.Sprintf("nothing is wrong yet: generation %d was written %s ago, and the operator has not reported on it", ds.Generation, plugin.Age(when, f.Now))
		d.Do = []string{"run the command again in some seconds"}
		return d
	}
	d.Wrong = true
	d.Cause = fmt.Sprintf("the operator has not reported on generation %d for %s: it does not run, or does not watch namespace %s",
		ds.Generation, plugin.Age(when, f.Now), ds.Namespace)
	if f.Operator != nil && f.Operator.Deployment != nil {
		o := f.Operator.Deployment
		d.Object = &Object{Kind: o.GetKind(), Name: o.GetName(), Elsewhere: true, Command: plugin.Look(o.GetNamespace(), o.GetKind(), o.GetName())}
	}
	d.Do = []string{"start the operator, or read its log, which names the problem; running pods keep running: " +
		"kubectl get deployments --all-namespaces -l app.kubernetes.io/name=d3os-operator"}
	return d
}

// failure explains a spec that cannot be applied. It returns nil if the problem of a component explains more.
func (f *Facts) failure(reason, message string) *Diagnosis {
	var about platform.Problem
	for _, c := range f.DataService.Status.Components {
		if c.Culprit != nil && (c.Phase == dsv1.PhaseFailed || c.Culprit.Reason == reason) {
			return nil
		}
		if c.Phase == dsv1.PhaseFailed && about.Component == "" { // the component's objects cannot be read
			about.Component = c.Name
		}
	}
	d := &Diagnosis{Wrong: true, Cause: reason + ": " + message, Object: f.object(dsv1.Kind, f.DataService.Name), Do: advice(reason), about: about}
	if strings.Contains(message, ": "+reason+": ") { // the line is short, so the reason is printed only once
		d.Cause = message
	}
	for _, named := range objectNamed.FindAllStringSubmatch(message, -1) {
		if d.Object.Kind == dsv1.Kind || named[1] == "Secret" { // if the message names a claim and a Secret, the user must examine the Secret
			d.Object = f.object(named[1], named[2])
		}
	}
	d.Events = f.last(func(kind, name string) bool { return kind == dsv1.Kind && name == f.DataService.Name })
	return d
}

// takenPort matches the API server's error about a node port that another Service uses.
var takenPort = regexp.MustCompile(`nodePort: Invalid value: (\d{1,5}): provided port is already allocated`)

// TakenPort returns the requested node port if the cause is that another Service uses it, otherwise 0.
func (d *Diagnosis) TakenPort() int32 {
	found := takenPort.FindStringSubmatch(cmp.Or(d.Detail, d.Cause))
	if found == nil {
		return 0
	}
	port, _ := strconv.ParseInt(found[1], 10, 32) // five digits at most
	return int32(port)
}

// objectNamed matches an object in a message of the operator: Service auth, or Service data-prod/auth.
var objectNamed = regexp.MustCompile(`\b(Secret|ConfigMap|PersistentVolumeClaim|Service|Deployment|StatefulSet|DaemonSet|CronJob|HorizontalPodAutoscaler|` +
	`PodDisruptionBudget|Ingress|HTTPRoute|NetworkPolicy|RedisCluster|EtcdCluster|MySQLCluster) (?:[a-z0-9-]+/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// paused explains a paused resource without a known problem.
func (f *Facts) paused() *Diagnosis {
	ds, since, parts := f.DataService, "", "components"
	field := "paused"
	if f.Resource != nil {
		parts, field = "pods", object.PauseField(f.Resource)
	}
	if who, when := changedBy(ds, field); when != nil {
		since = fmt.Sprintf(", since %s, by %s", plugin.Age(when, f.Now), who)
	}
	return &Diagnosis{
		Wrong:  true,
		Cause:  fmt.Sprintf("%s is paused%s: the operator creates, heals and updates nothing; %s ready: %s", ds.Name, since, parts, ds.Status.Ready),
		Object: f.Self(),
		Do:     []string{f.resume()},
	}
}

// hibernating explains a DataService whose pods are stopped, or are being stopped, because of spec.hibernate. It returns nil if a component
// has a problem, or if the DataService does not hibernate.
func (f *Facts) hibernating(blamed *dsv1.ComponentStatus) *Diagnosis {
	ds := f.DataService
	isActive := ds.Status.Phase == dsv1.PhaseHibernating || ds.Status.Phase == dsv1.PhaseHibernated
	if !isActive || blamed != nil && (blamed.Phase == dsv1.PhaseDegraded || blamed.Phase == dsv1.PhaseFailed) {
		return nil
	}
	return &Diagnosis{
		Cause:  fmt.Sprintf("%s is %s", ds.Name, ds.Status.Message),
		Object: f.Self(),
		Do: []string{fmt.Sprintf(`kubectl -n %s patch dataservice %s --type=merge --patch '{"spec":{"hibernate":false}}' starts the pods again, middleware first`,
			ds.Namespace, ds.Name)},
	}
}

func (f *Facts) last(is func(kind, name string) bool) []corev1.Event {
	found := f.about(is)
	return found[max(0, len(found)-lastEvents):]
}

// component explains a component that waits for no other component.
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
	isNamed := func(claim health.Culprit) bool {
		return c.Culprit != nil && c.Culprit.Kind == claim.Kind && c.Culprit.Name == claim.Name
	}
	// A claim is reported before the pod that needs the claim, unless the status already names the claim.
	if lost, what := f.claim(); what != "" && !isNamed(lost) {
		culprit, text = lost, what
	} else {
		f.sharpen(&culprit, &text, c)
	}
	return f.named(c, culprit, text)
}

// named explains the problem of a component if the object that causes the problem is known.
func (f *Facts) named(c *dsv1.ComponentStatus, culprit health.Culprit, text string) *Diagnosis {
	d := &Diagnosis{
		Wrong: true, Cause: strings.TrimSuffix(c.Name+": "+health.Refusal(text), ": "), Do: advice(culprit.Reason), about: platform.Problem{Component: c.Name},
	}
	if text == "" {
		d.Cause = fmt.Sprintf("%s is %s for %s: %d of %d pods are ready", c.Name, c.Phase, plugin.Age(c.LastTransitionTime, f.Now), c.Ready, c.Desired)
	}
	switch {
	case culprit.Reason == health.ReasonNotServed:
		d.Object = f.Self()
	case culprit.Name != "":
		d.Object = f.object(culprit.Kind, culprit.Name)
	}
	pod := f.pod(culprit.Name)
	if culprit.Kind == "Pod" && pod != nil {
		d.State = states(pod, f.Now)
	}
	if source := sourceOf(pod); source != nil {
		f.addLog(d, source, lastWords(pod, source.Name))
	}
	d.Events = f.last(f.concerns)
	if len(d.Do) == 0 {
		d.Do = advice(f.fallback(c))
	}
	return d
}

// addLog adds the last lines of a container's log. It appends the last error to the cause: from the log, or else from the container's
// termination message.
func (f *Facts) addLog(d *Diagnosis, source *Container, ended []string) {
	d.Log = f.Log[max(0, len(f.Log)-lastLines):]
	if f.LogError != "" {
		d.Log = []string{f.LogError}
	}
	previous := ""
	if source.Previous {
		previous = " --previous"
	}
	d.LogCommand = fmt.Sprintf("kubectl -n %s logs %s -c %s%s", f.DataService.Namespace, source.Pod, source.Name, previous)
	line := cmp.Or(health.LastError(f.Log), health.LastError(ended))
	switch crash := crashed.FindStringSubmatch(d.Cause); {
	case line == "" || strings.Contains(d.Cause, line) || strings.Contains(d.Cause, ": StartError: "): // a program that did not start has no log
	case crash != nil: // the error explains more than the exit code
		d.Cause = fmt.Sprintf("%s%s (container %s, exit code %s)", crash[1], line, crash[2], crash[3])
	default:
		d.Cause += "; log: " + line
	}
}

// crashed matches the cause of a container that exited with an error.
var crashed = regexp.MustCompile(`^(.*CrashLoopBackOff: )container (\S+) ended with exit code (\d+)$`)

// lastWords returns the lines of the termination message of a container.
func lastWords(pod *corev1.Pod, container string) []string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if c.Name == container && ended != nil && ended.Message != "" {
			return strings.Split(strings.TrimSpace(ended.Message), "\n")
		}
	}
	return nil
}

// fallback returns the reason whose advice is printed if the culprit's own reason has no advice.
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

// states describes the state of each container of a pod, and the container's last termination.
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
			line += "ended with " + health.ExitCode(c.State.Terminated)
		case c.State.Running != nil:
			line += "runs for " + plugin.Age(&c.State.Running.StartedAt, now)
			if !c.Ready {
				line += ", not ready"
			}
		}
		if c.RestartCount > 0 {
			line += fmt.Sprintf(", %d restarts", c.RestartCount)
		}
		if ended := c.LastTerminationState.Terminated; ended != nil {
			line += fmt.Sprintf("; ended %s ago with %s", plugin.Age(&ended.FinishedAt, now), health.ExitCode(ended))
		}
		lines = append(lines, line)
	}
	return lines
}

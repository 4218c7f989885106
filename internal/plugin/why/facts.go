// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why finds the root cause of a problem in a DataService, a RedisCluster, an EtcdCluster or a MySQLCluster. It is pure: it reads
// nothing, and its functions return what the caller must read next. Like the operator, it assesses objects and pods with internal/health.
// In addition, it uses logs, which the operator does not read, and the events of all objects. It imports the API of DataServices, because a
// diagnosis starts with the status of a DataService.
package why

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

// Facts contains the objects, events and logs that were read for a DataService.
type Facts struct {
	DataService *dsv1.DataService
	// Resource is the subject if the subject is not a DataService (see Alone); otherwise nil.
	Resource *unstructured.Unstructured
	// Component is the component to explain. Empty: any component that is not ready.
	Component string
	// Objects are the live objects of the component that Blamed returns, except Secrets and ConfigMaps. If the
	// component is a resource, such as a RedisCluster, its pods' workloads and other objects come before the resource
	// itself: the state of the resource counts only if none of them is broken.
	Objects []*unstructured.Unstructured
	// Pods are the pods of that component, including those of its resource.
	Pods []*corev1.Pod
	// Events are the events of the namespace.
	Events []corev1.Event
	// Log contains the last log lines of the container that Source returns. LogError is the reason why lines are missing.
	Log      []string
	LogError string
	// Backups are the DataBackups of the namespace. They are needed only if AsksForBackups returns true.
	Backups []backupv1.DataBackup
	// Refused are the kinds that the user may not read.
	Refused []string
	Now     time.Time
	// Namespace is the namespace; nil if the user may not read it.
	Namespace *corev1.Namespace
	// Operator is the state of the operator; nil if the user may not read it.
	Operator *Operator

	// suspect is the component that Contradict has selected: its objects are unhealthy, although its status reports no problem.
	suspect string
	// resources are the resources of all components that Contradict has read.
	resources []*unstructured.Unstructured
}

// Blamed returns the component that causes the problem. way is the path to this component from the component that the
// user asked about, such as web, proxy, auth. Blamed returns nil if no component is the cause.
func Blamed(ds *dsv1.DataService, asked string) (blamed *dsv1.ComponentStatus, way []string) {
	start := asked
	if start == "" {
		start = first(ds.Status.Components)
	}
	for blamed = find(ds, start); blamed != nil; blamed = find(ds, blamed.WaitsFor[0]) {
		if slices.Contains(way, blamed.Name) { // dependencies have no cycles, but a status may contain any text
			return blamed, way
		}
		way = append(way, blamed.Name)
		if len(blamed.WaitsFor) == 0 || find(ds, blamed.WaitsFor[0]) == nil {
			break
		}
	}
	if blamed != nil && asked == "" {
		way = longest(ds, blamed.Name)
	}
	return blamed, way
}

// first returns the most likely cause: a broken component, or else a component in progress, or else a waiting component.
func first(components []dsv1.ComponentStatus) string {
	for _, is := range []func(*dsv1.ComponentStatus) bool{
		func(c *dsv1.ComponentStatus) bool {
			return c.Phase == dsv1.PhaseFailed || c.Phase == dsv1.PhaseDegraded
		},
		func(c *dsv1.ComponentStatus) bool { return c.Phase != dsv1.PhaseRunning && len(c.WaitsFor) == 0 },
		func(c *dsv1.ComponentStatus) bool { return c.Phase != dsv1.PhaseRunning },
	} {
		for i := range components {
			if is(&components[i]) {
				return components[i].Name
			}
		}
	}
	return ""
}

// longest returns the longest path of waiting components that ends at the given component.
func longest(ds *dsv1.DataService, end string) []string {
	way := []string{end}
	for {
		next := ""
		for _, c := range ds.Status.Components {
			if slices.Contains(c.WaitsFor, way[0]) && !slices.Contains(way, c.Name) {
				next = c.Name
				break
			}
		}
		if next == "" {
			return way
		}
		way = append([]string{next}, way...)
	}
}

func find(ds *dsv1.DataService, name string) *dsv1.ComponentStatus {
	for i := range ds.Status.Components {
		if ds.Status.Components[i].Name == name {
			return &ds.Status.Components[i]
		}
	}
	return nil
}

// waiting returns the components that wait for a component, directly or indirectly.
func waiting(ds *dsv1.DataService, name string) []string {
	var found []string
	for grew := true; grew; {
		grew = false
		for _, c := range ds.Status.Components {
			waits := slices.ContainsFunc(c.WaitsFor, func(other string) bool { return other == name || slices.Contains(found, other) })
			if waits && !slices.Contains(found, c.Name) {
				found, grew = append(found, c.Name), true
			}
		}
	}
	return found
}

// Container identifies the source of a log.
type Container struct {
	Pod, Name string
	// Previous selects the log of the previous run. It is set if the container does not run now.
	Previous bool
}

// Has reports whether Facts contain an object.
func (f *Facts) Has(o *Object) bool {
	return o.Kind == "Pod" && f.pod(o.Name) != nil || slices.ContainsFunc(f.Objects, func(other *unstructured.Unstructured) bool {
		return other.GetKind() == o.Kind && other.GetName() == o.Name
	})
}

// Instead returns the object to examine if the given object does not exist: for a Job its cron job, otherwise the subject.
func (f *Facts) Instead(of *Object) *Object {
	for _, o := range f.Objects {
		if of.Kind == "Job" && o.GetKind() == "CronJob" && strings.HasPrefix(of.Name, o.GetName()+"-") {
			return f.object(o.GetKind(), o.GetName())
		}
	}
	return f.Self()
}

// Refuse records kinds that the user may not list.
func (f *Facts) Refuse(kinds []string) {
	f.Refused = append(f.Refused, plugin.WithoutOptional(kinds)...)
}

// Source returns the container whose log may show the reason why a pod is not healthy, or nil.
func Source(f *Facts) *Container { return sourceOf(f.pod(f.culprit().Name)) }

func sourceOf(pod *corev1.Pod) *Container {
	if pod == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.Ready || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
			continue
		}
		if c.State.Running == nil && c.State.Terminated == nil && c.LastTerminationState.Terminated == nil {
			continue // the container has never run
		}
		return &Container{Pod: pod.Name, Name: c.Name, Previous: c.State.Waiting != nil}
	}
	return nil
}

// culprit returns the object to examine: the object that the operator names, or else the culprit according to the objects' health.
func (f *Facts) culprit() health.Culprit {
	if f.suspect != "" {
		culprit, _ := f.unwell()
		return culprit
	}
	c, _ := Blamed(f.DataService, f.Component)
	if c != nil && c.Culprit != nil {
		return health.Culprit{Kind: c.Culprit.Kind, Name: c.Culprit.Name, Reason: c.Culprit.Reason, Message: c.Message}
	}
	state := health.Assess(f.Objects, f.Pods)
	if state.Problem != "" {
		return state.Culprit
	}
	if state.Hint != "" {
		return state.HintCulprit
	}
	return health.Culprit{}
}

func (f *Facts) pod(name string) *corev1.Pod {
	for _, pod := range f.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// about returns the events of the objects that the given function accepts, oldest first.
func (f *Facts) about(is func(kind, name string) bool) []corev1.Event {
	var found []corev1.Event
	for i := range f.Events {
		if o := f.Events[i].InvolvedObject; is(o.Kind, o.Name) {
			found = append(found, f.Events[i])
		}
	}
	health.SortEvents(found)
	return found
}

// concerns reports whether an object belongs to the component, or is one of its pods.
func (f *Facts) concerns(kind, name string) bool {
	if kind == "Pod" && f.pod(name) != nil || kind == "PersistentVolumeClaim" && f.claimed(name) {
		return true
	}
	for _, o := range f.Objects {
		if o.GetKind() == kind && o.GetName() == name {
			return true
		}
		// MongoDB's operator creates a StatefulSet without the component's labels.
		if kind == object.StatefulSetKind.Kind && object.IsForeign(o) && o.GetName() == name {
			return true
		}
		// The names of a Deployment's ReplicaSets begin with the name of the Deployment.
		if kind == "ReplicaSet" && o.GetKind() == "Deployment" && strings.HasPrefix(name, o.GetName()+"-") {
			return true
		}
	}
	return false
}

// changedBy returns the last writer of a field of the spec, and the time of that write. Both are empty if unknown.
func changedBy(ds *dsv1.DataService, field string) (who string, when *metav1.Time) {
	for _, entry := range ds.ManagedFields {
		if entry.Subresource != "" || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+field+`"`) {
			continue
		}
		if entry.Time != nil && (when == nil || when.Before(entry.Time)) {
			who, when = entry.Manager, entry.Time
		}
	}
	return who, when
}

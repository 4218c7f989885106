// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package halt changes plans of workloads: first to 0 pods, and later back to their former number of pods. It sends no requests.
package halt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// Mark is an annotation of a live workload that the operator has halted. Its value is the former number of pods.
type Mark string

// The marks, by the cause of the halt.
const (
	// Switch marks the workloads that use a database during a switch to another database.
	Switch Mark = "d3os-product.com.d3os/halted"
	// Hibernation marks the workloads of a platform that hibernates.
	Hibernation Mark = "d3os-product.com.d3os/hibernated"
)

// nowhere is a node label that no node has.
const nowhere = "d3os-product.com.d3os/halted"

var replicas = []string{"spec", "replicas"}

// Is reports whether a live workload has the mark. It returns false for nil.
func (m Mark) Is(live *unstructured.Unstructured) bool {
	return live != nil && live.GetAnnotations()[string(m)] != ""
}

// IsAny reports whether the live workload of any planned object has the mark.
func (m Mark) IsAny(planned []*unstructured.Unstructured, lookup object.Lookup) (bool, error) {
	for _, o := range planned {
		if !isWorkload(o) {
			continue
		}
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil || m.Is(live) {
			return err == nil, err
		}
	}
	return false, nil
}

// Halt returns the planned objects with the changes that keep pods from running. It copies objects before it changes
// them.
func (m Mark) Halt(planned []*unstructured.Unstructured, lookup object.Lookup, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return change(planned, lookup, owner, func(o, live *unstructured.Unstructured) (bool, error) {
		m.annotate(o, live)
		switch o.GetKind() {
		case object.CronJobKind.Kind:
			return true, suspend(o)
		case "DaemonSet":
			return true, unstructured.SetNestedField(o.Object, "true", "spec", "template", "spec", "nodeSelector", nowhere)
		}
		return true, unstructured.SetNestedField(o.Object, int64(0), replicas...)
	})
}

// Suspend returns the planned objects with suspended CronJobs. It copies objects before it changes them.
func (m Mark) Suspend(planned []*unstructured.Unstructured, lookup object.Lookup, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return change(planned, lookup, owner, func(o, live *unstructured.Unstructured) (bool, error) {
		if o.GetKind() != object.CronJobKind.Kind {
			return false, nil
		}
		m.annotate(o, live)
		return true, suspend(o)
	})
}

func (m Mark) annotate(o, live *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[string(m)] = strconv.FormatInt(former(live), 10)
	o.SetAnnotations(annotations)
}

func suspend(cron *unstructured.Unstructured) error {
	return unstructured.SetNestedField(cron.Object, true, "spec", "suspend")
}

// Resume returns the planned objects for the end of a halt. If the plan sets no replicas, a workload with the mark gets
// the number of pods that it had before the halt. Other objects are returned as planned.
func (m Mark) Resume(planned []*unstructured.Unstructured, lookup object.Lookup, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return change(planned, lookup, owner, func(o, live *unstructured.Unstructured) (bool, error) {
		_, isPlanned, _ := unstructured.NestedInt64(o.Object, replicas...)
		if isPlanned || !m.Is(live) || o.GetKind() == object.CronJobKind.Kind || o.GetKind() == "DaemonSet" {
			return false, nil
		}
		return true, unstructured.SetNestedField(o.Object, former(live), replicas...)
	})
}

// change calls set with a copy of each planned workload. If set returns true, the copy replaces the workload in the
// result.
func change(planned []*unstructured.Unstructured, lookup object.Lookup, owner object.Owner, set func(o, live *unstructured.Unstructured) (bool, error)) ([]*unstructured.Unstructured, error) {
	result := slices.Clone(planned)
	for i, o := range planned {
		if !isWorkload(o) {
			continue
		}
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil {
			return nil, err
		}
		o = object.Unfinished(o)
		is, err := set(o, live)
		if err == nil && is {
			_, err = object.Finish(o, owner)
			result[i] = o
		}
		if err != nil {
			return nil, fmt.Errorf("plan %s %s for a halt: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return result, nil
}

// former returns the number of pods that a workload had before any halt, or 1 if unknown. An autoscaler continues with that number.
func former(live *unstructured.Unstructured) int64 {
	if live == nil {
		return 1
	}
	for _, m := range []Mark{Switch, Hibernation} {
		if n, err := strconv.ParseInt(live.GetAnnotations()[string(m)], 10, 32); err == nil {
			return n
		}
	}
	n, found, err := unstructured.NestedInt64(live.Object, replicas...)
	if !found || err != nil {
		return 1
	}
	return n
}

// MayRun reports whether pods of a live workload may still exist or start although it is halted. It returns false for nil.
func MayRun(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	number := func(path ...string) int64 { n, _, _ := unstructured.NestedInt64(live.Object, path...); return n }
	switch live.GetKind() {
	case object.CronJobKind.Kind:
		isSuspended, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend")
		active, _, _ := unstructured.NestedSlice(live.Object, "status", "active")
		return !isSuspended || len(active) > 0
	case "DaemonSet":
		return !Switch.Is(live) && !Hibernation.Is(live) || number("status", "observedGeneration") < live.GetGeneration() || number("status", "currentNumberScheduled") > 0
	}
	planned, found, _ := unstructured.NestedInt64(live.Object, replicas...)
	return !found || planned > 0 || number("status", "observedGeneration") < live.GetGeneration() || number("status", "replicas") > 0
}

// Remains lists the halted workloads that may still run, and the pods that have not ended.
func Remains(workloads []*unstructured.Unstructured, pods []*corev1.Pod, lookup object.Lookup) (remains []string, err error) {
	for _, o := range workloads {
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil {
			return nil, err
		}
		if MayRun(live) {
			remains = append(remains, o.GetKind()+" "+o.GetName())
		}
	}
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			remains = append(remains, "Pod "+pod.Name)
		}
	}
	return remains, nil
}

// Few returns a text with the names of the first objects and the number of further ones.
func Few(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// Workloads returns the planned objects that have pods.
func Workloads(planned []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(planned), func(o *unstructured.Unstructured) bool { return !isWorkload(o) })
}

// isWorkload reports whether an object has pods, or a controller of the operator creates pods for it.
func isWorkload(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", object.CronJobKind.Kind:
		return true
	}
	return object.IsResource(o) && !object.IsForeign(o)
}

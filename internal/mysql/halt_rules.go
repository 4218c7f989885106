// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// annotation, on a live workload, marks it as halted by the operator and stores its former number of pods.
const annotation = "d3os-product.com.d3os/halted"

// nowhere is a node label that no node has.
const nowhere = "d3os-product.com.d3os/halted"

var replicas = []string{"spec", "replicas"}

// Lookup returns the live object of a kind and name, or nil.
type Lookup func(kind, name string) (*unstructured.Unstructured, error)

// IsHalted reports whether the operator halted a live workload. It is false for nil.
func IsHalted(live *unstructured.Unstructured) bool {
	return live != nil && live.GetAnnotations()[annotation] != ""
}

// IsAny reports whether the live workload of a planned object is halted.
func IsAny(planned []*unstructured.Unstructured, lookup Lookup) (bool, error) {
	for _, o := range planned {
		if !isWorkload(o) {
			continue
		}
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil || IsHalted(live) {
			return err == nil, err
		}
	}
	return false, nil
}

// Halt returns the planned objects in a form without pods. It copies objects before it changes them.
func Halt(planned []*unstructured.Unstructured, lookup Lookup, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return change(planned, lookup, owner, func(o, live *unstructured.Unstructured) (bool, error) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotation] = strconv.FormatInt(former(live), 10)
		o.SetAnnotations(annotations)
		switch o.GetKind() {
		case object.CronJobKind.Kind:
			return true, unstructured.SetNestedField(o.Object, true, "spec", "suspend")
		case "DaemonSet":
			return true, unstructured.SetNestedField(o.Object, "true", "spec", "template", "spec", "nodeSelector", nowhere)
		}
		return true, unstructured.SetNestedField(o.Object, int64(0), replicas...)
	})
}

// Resume returns the planned objects in the form that ends a halt. A workload without planned replicas gets its former number once. Without
// a halted workload the objects are as planned.
func Resume(planned []*unstructured.Unstructured, lookup Lookup, owner object.Owner) ([]*unstructured.Unstructured, error) {
	return change(planned, lookup, owner, func(o, live *unstructured.Unstructured) (bool, error) {
		_, isPlanned, _ := unstructured.NestedInt64(o.Object, replicas...)
		if isPlanned || !IsHalted(live) || o.GetKind() != "Deployment" && o.GetKind() != "StatefulSet" {
			return false, nil
		}
		return true, unstructured.SetNestedField(o.Object, former(live), replicas...)
	})
}

// change returns the objects with changed copies of those workloads for which set returns true.
func change(planned []*unstructured.Unstructured, lookup Lookup, owner object.Owner, set func(o, live *unstructured.Unstructured) (bool, error)) ([]*unstructured.Unstructured, error) {
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

// former returns the number of pods of a workload before it was halted, or 1 if unknown: an autoscaler continues from there.
func former(live *unstructured.Unstructured) int64 {
	if live == nil {
		return 1
	}
	if n, err := strconv.ParseInt(live.GetAnnotations()[annotation], 10, 32); err == nil {
		return n
	}
	n, found, err := unstructured.NestedInt64(live.Object, replicas...)
	if !found || err != nil {
		return 1
	}
	return n
}

// MayRun reports whether pods of a live workload may still exist or start although it is halted. It is false for nil.
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
		return !IsHalted(live) || number("status", "observedGeneration") < live.GetGeneration() || number("status", "currentNumberScheduled") > 0
	}
	planned, found, _ := unstructured.NestedInt64(live.Object, replicas...)
	return !found || planned > 0 || number("status", "observedGeneration") < live.GetGeneration() || number("status", "replicas") > 0
}

// Workloads returns the planned objects that have pods.
func Workloads(planned []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(planned), func(o *unstructured.Unstructured) bool { return !isWorkload(o) })
}

func isWorkload(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", object.CronJobKind.Kind:
		return true
	}
	return false
}

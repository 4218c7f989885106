// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podSpecs are the paths of pod specs in workloads.
var podSpecs = [][]string{
	{"spec", "template", "spec"},
	{"spec", "jobTemplate", "spec", "template", "spec"},
}

// podFields are fields of a pod spec that change what the pod may do.
var podFields = [][]string{{"hostNetwork"}, {"hostPID"}, {"hostIPC"}, {"serviceAccountName"}, {"serviceAccount"}}

// containerFields are fields of a planned container that change what it runs.
var containerFields = [][]string{
	{"command"}, {"args"}, {"envFrom"}, {"lifecycle"}, {"lifecycle", "postStart"}, {"lifecycle", "preStop"},
	{"securityContext", "privileged"}, {"securityContext", "capabilities", "add"},
}

// externalIPs are addresses that send their traffic to a Service.
var externalIPs = []string{"spec", "externalIPs"}

// hasUnplannedOfPods reports whether a live workload's pods differ from the planned ones by fields or variables that
// the plan does not set.
func hasUnplannedOfPods(planned, live *unstructured.Unstructured) bool {
	found := false
	eachUnplanned(planned, live, func(map[string]any, []string) { found = true })
	eachContainer(planned, live, func(want, has map[string]any) {
		found = found || unplannedItems(items(want, "env"), items(has, "env"), nameKey)
	})
	return found
}

// removeUnplannedOfPods removes from an object what hasUnplannedOfPods finds.
func removeUnplannedOfPods(planned, object *unstructured.Unstructured) {
	eachUnplanned(planned, object, func(in map[string]any, path []string) { unstructured.RemoveNestedField(in, path...) })
	eachContainer(planned, object, func(want, has map[string]any) { setField(has, "env", want["env"]) })
}

// eachUnplanned calls a function with each of podFields and containerFields that only the live workload has.
func eachUnplanned(planned, live *unstructured.Unstructured, do func(in map[string]any, path []string)) {
	for _, path := range podSpecs {
		want, has := fields(planned, path), fields(live, path)
		for _, field := range podFields {
			// The API server copies serviceAccountName to serviceAccount.
			copied := field[0] == "serviceAccount" && want["serviceAccountName"] != nil
			if !copied && unplannedPath(want, has, field) {
				do(has, field)
			}
		}
	}
	eachContainer(planned, live, func(want, has map[string]any) {
		for _, field := range containerFields {
			if unplannedPath(want, has, field) {
				do(has, field)
			}
		}
	})
}

// eachContainer calls a function with each planned container and its live one.
func eachContainer(planned, live *unstructured.Unstructured, do func(want, has map[string]any)) {
	for _, path := range podSpecs {
		for _, list := range []string{"initContainers", "containers"} {
			wanted := items(fields(planned, path), list)
			for _, has := range items(fields(live, path), list) {
				if want := find(wanted, nameKey, nameKey(has)); want != nil {
					do(want, has)
				}
			}
		}
	}
}

// fields returns the map at a path, without copying it.
func fields(object *unstructured.Unstructured, path []string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	found, _ := value.(map[string]any)
	return found
}

// unplannedPath reports whether a live map has a field that the planned one does not set.
func unplannedPath(planned, live map[string]any, path []string) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(live, path...)
	switch has := value.(type) {
	case nil:
		return false
	case bool:
		if !has {
			return false
		}
	case string:
		if has == "" {
			return false
		}
	case []any:
		if len(has) == 0 {
			return false
		}
	}
	want, _, _ := unstructured.NestedFieldNoCopy(planned, path...)
	return want == nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Server-side apply leaves entries that others added to a map or list. Most of them are
// welcome: labels, annotations, a sidecar that a webhook injects. Some change what runs though
// nobody declared it: another variable in a component's container, another file in its
// configuration, another port of its Service. Those lists are the plan's alone.

// withoutForeign returns the live object without such entries, or nil when it has none.
func withoutForeign(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	switch planned.GetKind() {
	case "ConfigMap", "Secret":
		if !foreignKeys(planned.Object, live.Object, "data") && !foreignKeys(planned.Object, live.Object, "binaryData") {
			return nil
		}
		cleaned := live.DeepCopy()
		removeForeignKeys(planned.Object, cleaned.Object, "data")
		removeForeignKeys(planned.Object, cleaned.Object, "binaryData")
		return cleaned
	case "Service":
		if !foreignItems(planned.Object, live.Object, portKey, "spec", "ports") {
			return nil
		}
		cleaned := live.DeepCopy()
		removeForeignItems(planned.Object, cleaned.Object, portKey, "spec", "ports")
		return cleaned
	case "Deployment", "StatefulSet", "DaemonSet":
		return withoutForeignEnv(planned, live)
	}
	return nil
}

func withoutForeignEnv(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	var cleaned *unstructured.Unstructured
	for _, list := range []string{"initContainers", "containers"} {
		path := []string{"spec", "template", "spec", list}
		for i, container := range items(live.Object, path...) {
			want := find(items(planned.Object, path...), nameKey, nameKey(container))
			if want == nil || !foreignItems(want, container, nameKey, "env") {
				continue
			}
			if cleaned == nil {
				cleaned = live.DeepCopy()
			}
			removeForeignItems(want, items(cleaned.Object, path...)[i], nameKey, "env")
		}
	}
	return cleaned
}

// key identifies an item of a list as the API server does.
type key func(map[string]any) any

func nameKey(item map[string]any) any { return item["name"] }

func portKey(item map[string]any) any {
	protocol := item["protocol"]
	if protocol == nil {
		protocol = "TCP"
	}
	return [2]any{item["port"], protocol}
}

func foreignKeys(planned, live map[string]any, field string) bool {
	want, _ := planned[field].(map[string]any)
	has, _ := live[field].(map[string]any)
	for k := range has {
		if _, ok := want[k]; !ok {
			return true
		}
	}
	return false
}

func removeForeignKeys(planned, live map[string]any, field string) {
	want, _ := planned[field].(map[string]any)
	has, _ := live[field].(map[string]any)
	for k := range has {
		if _, ok := want[k]; !ok {
			delete(has, k)
		}
	}
}

func foreignItems(planned, live map[string]any, by key, path ...string) bool {
	want := items(planned, path...)
	return slices.ContainsFunc(items(live, path...), func(item map[string]any) bool { return find(want, by, by(item)) == nil })
}

func removeForeignItems(planned, live map[string]any, by key, path ...string) {
	want := items(planned, path...)
	var kept []any
	for _, item := range items(live, path...) {
		if find(want, by, by(item)) != nil {
			kept = append(kept, item)
		}
	}
	parent := live
	for _, field := range path[:len(path)-1] {
		parent, _ = parent[field].(map[string]any)
	}
	parent[path[len(path)-1]] = kept
}

// items returns the maps in the list at a path, without copying them.
func items(object map[string]any, path ...string) []map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	list, _ := value.([]any)
	found := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

func find(list []map[string]any, by key, value any) map[string]any {
	for _, item := range list {
		if by(item) == value {
			return item
		}
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podSpecs are the paths of pod specs in workloads.
var podSpecs = [][]string{
	{"spec", "template", "spec"},
	{"spec", "jobTemplate", "spec", "template", "spec"},
}

// workloadFields are fields of a workload that prevent it from creating or updating pods.
var workloadFields = [][]string{{"spec", "jobTemplate", "spec", "suspend"}}

// podFields are fields of a pod spec that affect the pod's rights, its node and its traffic.
var podFields = [][]string{
	{"hostNetwork"}, {"hostPID"}, {"hostIPC"}, {"serviceAccountName"}, {"serviceAccount"},
	{"nodeName"}, {"hostAliases"}, {"shareProcessNamespace"}, {"securityContext", "runAsUser"}, {"securityContext", "runAsGroup"},
	{"dnsPolicy"}, {"dnsConfig"}, {"runtimeClassName"}, {"securityContext", "fsGroup"}, {"securityContext", "supplementalGroups"}, {"securityContext", "sysctls"},
	{"securityContext", "seccompProfile"}, {"securityContext", "appArmorProfile"}, {"securityContext", "seLinuxOptions"},
}

// containerFields are fields of a planned container that affect the running program.
var containerFields = [][]string{
	{"command"}, {"args"}, {"envFrom"}, {"lifecycle"}, {"lifecycle", "postStart"}, {"lifecycle", "preStop"},
	// The API server refuses a second handler in addition to a planned one.
	{"lifecycle", "preStop", "exec"}, {"lifecycle", "preStop", "httpGet"}, {"lifecycle", "preStop", "sleep"}, {"lifecycle", "preStop", "tcpSocket"},
	{"securityContext", "privileged"}, {"securityContext", "capabilities", "add"},
	{"securityContext", "runAsUser"}, {"securityContext", "runAsGroup"},
	{"securityContext", "seccompProfile"}, {"securityContext", "appArmorProfile"}, {"securityContext", "seLinuxOptions"},
}

// externalIPs is the path of the external addresses whose traffic goes to a Service.
var externalIPs = []string{"spec", "externalIPs"}

// hasUnplannedOfPods reports whether a live workload's pods have fields or variables that the plan does not set.
func hasUnplannedOfPods(planned, live *unstructured.Unstructured) bool {
	found := false
	eachUnplanned(planned, live, func(map[string]any, []string) { found = true })
	eachContainer(planned, live, func(want, has map[string]any) {
		found = found || unplannedItems(items(want, "env"), items(has, "env"), nameKey) ||
			unplannedItems(items(want, "volumeMounts"), items(has, "volumeMounts"), mountKey) ||
			unplannedItems(items(want, "volumeDevices"), items(has, "volumeDevices"), deviceKey)
	})
	return found || slices.ContainsFunc(podSpecs, func(path []string) bool {
		return len(unplannedVolumes(fields(planned, path), fields(live, path))) > 0
	})
}

// removeUnplannedOfPods removes the fields and variables that hasUnplannedOfPods finds.
func removeUnplannedOfPods(planned, object *unstructured.Unstructured) {
	eachUnplanned(planned, object, func(in map[string]any, path []string) { unstructured.RemoveNestedField(in, path...) })
	for _, path := range podSpecs { // before the mounts are changed: unplannedVolumes reads them
		want, has := fields(planned, path), fields(object, path)
		unplanned := unplannedVolumes(want, has)
		if len(unplanned) == 0 {
			continue
		}
		var volumes []map[string]any
		for _, volume := range items(has, "volumes") {
			planned := find(items(want, "volumes"), nameKey, nameKey(volume))
			switch {
			case !unplanned[nameKey(volume)]:
				volumes = append(volumes, volume)
			case planned != nil:
				volumes = append(volumes, planned)
			}
		}
		setField(has, "volumes", list(volumes))
	}
	eachContainer(planned, object, func(want, has map[string]any) {
		setField(has, "env", want["env"])
		setField(has, "volumeMounts", want["volumeMounts"])
		setField(has, "volumeDevices", want["volumeDevices"])
	})
}

// unplannedVariables returns the sorted names of the variables that planned containers have only in the live workload.
func unplannedVariables(planned, live *unstructured.Unstructured) []string {
	var names []string
	eachContainer(planned, live, func(want, has map[string]any) {
		known := map[any]bool{}
		for _, variable := range items(want, "env") {
			known[nameKey(variable)] = true
		}
		for _, variable := range items(has, "env") {
			if name, _ := variable["name"].(string); !known[name] {
				names = append(names, name)
			}
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// unplannedVolumes returns the names of live volumes that must be removed: planned volumes with another source, and
// unplanned volumes that are a path of the node or that a planned container mounts. It omits unplanned volumes that an
// added container mounts.
func unplannedVolumes(planned, live map[string]any) map[any]bool {
	mounts := map[any]bool{} // names of mounted volumes; true if an added container mounts the volume
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range items(live, list) {
			isPlanned := find(items(planned, list), nameKey, nameKey(container)) != nil
			for _, mount := range slices.Concat(items(container, "volumeMounts"), items(container, "volumeDevices")) {
				mounts[mount["name"]] = mounts[mount["name"]] || !isPlanned
			}
		}
	}
	found := map[any]bool{}
	for _, volume := range items(live, "volumes") {
		name := nameKey(volume)
		if want := find(items(planned, "volumes"), nameKey, name); want != nil {
			found[name] = hasOtherSource(want, volume)
			continue
		}
		byAdded, isMounted := mounts[name]
		found[name] = !byAdded && (isMounted || volume["hostPath"] != nil)
	}
	for name, is := range found {
		if !is {
			delete(found, name)
		}
	}
	return found
}

// hasOtherSource reports whether a live volume has a source that the planned one lacks.
func hasOtherSource(planned, live map[string]any) bool {
	for source := range live {
		if _, ok := planned[source]; !ok && (source != "emptyDir" || len(planned) > 1) {
			return true
		}
	}
	return false
}

// mountKey identifies a mount as the API server does.
func mountKey(mount map[string]any) any { return mount["mountPath"] }

// deviceKey identifies a volume in block mode as the API server does.
func deviceKey(device map[string]any) any { return device["devicePath"] }

// eachUnplanned calls do for each field of workloadFields, podFields and containerFields that only the live workload sets.
func eachUnplanned(planned, live *unstructured.Unstructured, do func(in map[string]any, path []string)) {
	for _, field := range workloadFields {
		if unplannedPath(planned.Object, live.Object, field) {
			do(live.Object, field)
		}
	}
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

// eachContainer calls do for each planned container with the live container of the same name.
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

// unplannedPath reports whether a live map has a field that the planned one does not set. An empty value, and the API server's default, count
// as not set.
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
		if has == "" || has == defaults[path[len(path)-1]] {
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

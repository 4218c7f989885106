// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// Names of the guard's containers and volumes in the chart.
const (
	containerAgent = "d3os-agent"
	containerGuard = "d3os-guard"
	// containerVolume is the container that reports how full the volume is.
	containerVolume = "d3os-volume"
	// Names with prefixRestore belong to the containers that restore or import data into a new database, and to their
	// volumes.
	prefixRestore = "d3os-restore"
	volumeAgent   = "d3os-agent"
	volumeRecord  = "d3os-record"
	// variableLimits is the environment variable that names the agent's file with the limit of the server's open files.
	variableLimits = "BASH_ENV"
)

// annotationPods is an annotation of a workload with the guard. It contains two digests: of the pods without the guard,
// and of the guard without the agent's image.
const annotationPods = "d3os-product.com.d3os/pods"

// Settle decides how a database's workload is applied, with or without the guard. live is the live workload, or nil.
// The guard, or a newer image of the agent, never restarts a database: pods get the guard or the newer image when they
// start for another reason.
//
//   - If only the guard would change, a StatefulSet gets the guard with the strategy OnDelete: the running pod
//     continues, and only the next pod has the guard. The next change of the pods removes OnDelete.
//   - A Deployment has no such strategy. It stays without the guard until its pods change, or until the volume is in
//     doubt.
//   - The image of the agent stays until something else in the pods changes.
//   - If the operator does not know the image, the live workload's image is used. Without a live workload, there is no
//     guard.
//   - A database with data (hasData) restores no backup: its next pod lacks the container that restores, and the
//     container's volumes. So the pod can start even if the store is missing. A Deployment drops both when its pods
//     change.
//
// Settle does not change objects: it copies the workload if the workload differs. The returned revision covers all objects.
func Settle(objects []*unstructured.Unstructured, live *unstructured.Unstructured, isKnown, hasData bool, owner object.Owner) (settled []*unstructured.Unstructured, revision string, err error) {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return agentImage(o) != "" })
	if i < 0 {
		return objects, "", nil
	}
	planned, err := form(object.Unfinished(objects[i]), live, isKnown, hasData, owner)
	if err != nil {
		return nil, "", err
	}
	planned = object.Unfinished(planned)
	own, err := object.Finish(planned, owner)
	if err != nil {
		return nil, "", err
	}
	settled = slices.Clone(objects)
	settled[i] = planned
	var revisions []byte // as in object.FinishAll
	for j, o := range settled {
		switch {
		case j == i:
			revisions = append(revisions, own...)
		case o.GetKind() != "PodDisruptionBudget":
			revisions = append(revisions, object.Digest(o)...)
		}
	}
	return settled, object.Sum(revisions), nil
}

// form returns the workload to apply: the planned workload with or without the guard and the restore.
func form(planned, live *unstructured.Unstructured, isKnown, hasData bool, owner object.Owner) (*unstructured.Unstructured, error) {
	bare := without(planned)
	if hasData && (planned.GetKind() == "StatefulSet" || !restores(live) || !hasPods(live, bare)) {
		planned = withoutRestore(planned)
	}
	if agentImage(planned) == UnknownImage {
		if live == nil || agentImage(live) == "" {
			drop(bare, "containers", func(name string) bool { return name == containerVolume }) // this container runs the agent
			return bare, nil
		}
		setAgentImage(planned, agentImage(live))
	}
	pods, guard, err := digests(planned, bare)
	if err != nil {
		return nil, err
	}
	annotate(planned, annotationPods, pods+"-"+guard)
	if live == nil || live.GetKind() != planned.GetKind() {
		return planned, nil
	}
	return settle(planned, bare, live, pods, guard, isKnown, owner)
}

func settle(planned, bare, live *unstructured.Unstructured, pods, guard string, isKnown bool, owner object.Owner) (*unstructured.Unstructured, error) {
	known, knownGuard, hadGuard := strings.Cut(live.GetAnnotations()[annotationPods], "-")
	if !hadGuard {
		if _, err := object.Finish(bare, owner); err != nil {
			return nil, err
		}
		switch {
		case object.Digest(bare) != object.Digest(live):
			return planned, nil
		case planned.GetKind() == "StatefulSet":
			return planned, onDelete(planned)
		case isKnown:
			return bare, nil
		}
		return planned, nil
	}
	if known != pods {
		return planned, nil
	}
	if image := agentImage(live); image != "" {
		setAgentImage(planned, image)
	}
	strategy, _, _ := unstructured.NestedString(live.Object, "spec", "updateStrategy", "type")
	if planned.GetKind() == "StatefulSet" && (strategy == "OnDelete" || knownGuard != guard) {
		return planned, onDelete(planned)
	}
	return planned, nil
}

func onDelete(set *unstructured.Unstructured) error {
	if err := unstructured.SetNestedField(set.Object, "OnDelete", "spec", "updateStrategy", "type"); err != nil {
		return fmt.Errorf("set the strategy of StatefulSet %s: %w", set.GetName(), err)
	}
	return nil
}

// initContainers returns the init containers of a workload. A change of the returned maps changes the workload.
func initContainers(o *unstructured.Unstructured) []any {
	spec, _ := o.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	list, _ := pod["initContainers"].([]any)
	return list
}

func agent(o *unstructured.Unstructured) map[string]any {
	for _, c := range initContainers(o) {
		if container, _ := c.(map[string]any); container["name"] == containerAgent {
			return container
		}
	}
	return nil
}

func agentImage(o *unstructured.Unstructured) string {
	image, _ := agent(o)["image"].(string)
	return image
}

func setAgentImage(o *unstructured.Unstructured, image string) {
	if container := agent(o); container != nil {
		container["image"] = image
	}
}

// without returns a copy of a workload without the guard, and without the restore of a backup.
func without(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := withoutRestore(o)
	drop(bare, "initContainers", func(name string) bool { return name == containerAgent || name == containerGuard })
	drop(bare, "volumes", func(name string) bool { return name == volumeAgent || name == volumeRecord })
	withoutLimits(bare)
	return bare
}

// withoutRestore returns a copy of a workload without the restore of a backup.
func withoutRestore(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := o.DeepCopy()
	for _, list := range []string{"initContainers", "volumes"} {
		drop(bare, list, isRestore)
	}
	return bare
}

func isRestore(name string) bool { return strings.HasPrefix(name, prefixRestore) }

// restores reports whether the pods of a workload have the container that restores a backup. o may be nil.
func restores(o *unstructured.Unstructured) bool {
	return o != nil && slices.ContainsFunc(initContainers(o), func(item any) bool { return isRestore(nameOf(item)) })
}

// drop removes items by name from a list in the pod template of a workload. If the list becomes empty, drop removes the list.
func drop(o *unstructured.Unstructured, list string, isDropped func(name string) bool) {
	path := []string{"spec", "template", "spec", list}
	items, _, _ := unstructured.NestedSlice(o.Object, path...)
	items = slices.DeleteFunc(items, func(item any) bool { return isDropped(nameOf(item)) })
	if len(items) == 0 {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	_ = unstructured.SetNestedSlice(o.Object, items, path...) // cannot fail: the path consists of maps
}

func nameOf(item any) string {
	named, _ := item.(map[string]any)
	name, _ := named["name"].(string)
	return name
}

// withoutLimits removes the limit of open files from a workload.
func withoutLimits(bare *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "containers"}
	containers, isThere, _ := unstructured.NestedSlice(bare.Object, path...)
	isGuards := func(item any) bool {
		entry, _ := item.(map[string]any)
		file, _ := entry["value"].(string)
		return entry["name"] == volumeAgent || entry["name"] == variableLimits && strings.HasPrefix(file, "/"+volumeAgent+"/")
	}
	for _, c := range containers {
		container, _ := c.(map[string]any)
		for _, list := range []string{"volumeMounts", "env"} {
			items, _ := container[list].([]any)
			if rest := slices.DeleteFunc(slices.Clone(items), isGuards); len(rest) > 0 {
				container[list] = rest
			} else {
				delete(container, list)
			}
		}
	}
	if isThere {
		_ = unstructured.SetNestedSlice(bare.Object, containers, path...) // cannot fail: the path consists of maps
	}
}

// hasPods reports whether the pods of a live workload equal the planned pods, ignoring the guard and the restore.
func hasPods(live, bare *unstructured.Unstructured) bool {
	known, _, _ := strings.Cut(live.GetAnnotations()[annotationPods], "-")
	pods, err := digestOf(bare)
	return err == nil && known == pods
}

// digestOf returns the digest of a workload's pods.
func digestOf(o *unstructured.Unstructured) (string, error) {
	template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	text, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("compute the digest of the pods of %s: %w", o.GetName(), err)
	}
	return object.Sum(text), nil
}

// digests returns the digest of a workload's pods without the guard, and the digest of the guard without the agent's image.
func digests(planned, bare *unstructured.Unstructured) (pods, guard string, err error) {
	if pods, err = digestOf(bare); err != nil {
		return "", "", err
	}
	whole := planned.DeepCopy()
	setAgentImage(whole, "-")
	guard, err = digestOf(whole)
	return pods, guard, err
}

func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// The names that the chart gives to what the guard consists of.
const (
	containerAgent = "d3os-agent"
	containerGuard = "d3os-guard"
	// prefixRestore begins the names of the container that restores a backup at the birth of a database, and of its volumes.
	prefixRestore = "d3os-restore"
	volumeAgent   = "d3os-agent"
	volumeRecord  = "d3os-record"
	// variableLimits names the file of the agent that bounds the open files of the server.
	variableLimits = "BASH_ENV"
)

// annotationPods holds, on a workload with the guard, the digest of its pods without the guard, and of the guard without
// its image.
const annotationPods = "d3os-product.com.d3os/pods"

// Settle chooses the form of a database's workload, given the live one, nil for none. The guard comes into pods when they
// start for another reason; neither it nor a newer image of the agent restarts a database:
//   - Where nothing but the guard would change, a StatefulSet gets the guard with the strategy OnDelete: the pod that runs
//     goes on, and whatever pod comes after it has the guard. The next change of the pods takes OnDelete away.
//   - A Deployment has no such strategy. It stays without the guard until its pods change, or until the volume is in doubt.
//   - The image of the agent stays the one that the pods were made with until something else of them changes.
//   - An operator that does not know the image takes that of the live workload. Without one, there is no guard.
//
// The objects are not changed: the workload is a copy where it differs. The revision is the one of all objects then.
func Settle(objects []*unstructured.Unstructured, live *unstructured.Unstructured, isKnown bool, owner object.Owner) (settled []*unstructured.Unstructured, revision string, err error) {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return agentImage(o) != "" })
	if i < 0 {
		return objects, "", nil
	}
	planned, err := form(object.Unfinished(objects[i]), live, isKnown, owner)
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
	var revisions []byte // as object.FinishAll has them
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

// form returns the form that a planned workload gets.
func form(planned, live *unstructured.Unstructured, isKnown bool, owner object.Owner) (*unstructured.Unstructured, error) {
	bare := without(planned)
	if agentImage(planned) == UnknownImage {
		if live == nil || agentImage(live) == "" {
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

// initContainers returns the init containers of a workload; the maps are the workload's own.
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

// without returns a copy of a workload without the guard, and without what restores a backup before it.
func without(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := o.DeepCopy()
	for list, names := range map[string][]any{"initContainers": {containerAgent, containerGuard}, "volumes": {volumeAgent, volumeRecord}} {
		path := []string{"spec", "template", "spec", list}
		items, _, _ := unstructured.NestedSlice(bare.Object, path...)
		items = slices.DeleteFunc(items, func(item any) bool {
			named, _ := item.(map[string]any)
			name, _ := named["name"].(string)
			return slices.Contains(names, named["name"]) || strings.HasPrefix(name, prefixRestore)
		})
		if len(items) == 0 {
			unstructured.RemoveNestedField(bare.Object, path...)
			continue
		}
		_ = unstructured.SetNestedSlice(bare.Object, items, path...) // maps all the way
	}
	withoutLimits(bare)
	return bare
}

// withoutLimits takes what bounds the open files of the server out of a workload.
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
		_ = unstructured.SetNestedSlice(bare.Object, containers, path...) // maps all the way
	}
}

// digests returns that of a workload's pods without the guard, and that of the guard without the agent's image.
func digests(planned, bare *unstructured.Unstructured) (pods, guard string, err error) {
	template, _, _ := unstructured.NestedMap(bare.Object, "spec", "template")
	text, err := json.Marshal(template)
	if err != nil {
		return "", "", fmt.Errorf("compute the digest of the pods of %s: %w", planned.GetName(), err)
	}
	whole := planned.DeepCopy()
	setAgentImage(whole, "-")
	withGuard, _, _ := unstructured.NestedMap(whole.Object, "spec", "template")
	own, err := json.Marshal(withGuard)
	if err != nil {
		return "", "", fmt.Errorf("compute the digest of the guard of %s: %w", planned.GetName(), err)
	}
	return object.Sum(text), object.Sum(own), nil
}

func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

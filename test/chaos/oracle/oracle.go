// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle compares the states of two namespaces. It ignores values that always differ: names of the namespaces, UIDs, versions,
// times, addresses, generated passwords. Two Snapshots show whether anything was written or restarted in a namespace.
package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// State is the state of a namespace. It maps kind/name to the compared fields of the object.
type State map[string]any

// Of returns the state of a namespace's objects. Pods have random names, so the state contains a summary of each component's pods.
func Of(namespace string, objects []*unstructured.Unstructured) (State, error) {
	known := map[types.UID]string{}
	for _, obj := range objects {
		known[obj.GetUID()] = id(obj)
	}
	state, pods := State{}, map[string]int{}
	for _, obj := range objects {
		switch {
		case foreign(obj):
		case obj.GetKind() == "Pod":
			pods[podLine(obj)]++
		default:
			plain, err := plainly(namespace, known, normal(obj, known))
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", id(obj), err)
			}
			state[id(obj)] = plain
		}
	}
	for line, n := range pods {
		state["Pods/"+line] = n
	}
	return state, nil
}

// Read reads the objects of some kinds in a namespace, and returns their state.
func Read(ctx context.Context, api client.Reader, namespace string, kinds ...schema.GroupVersionKind) (State, error) {
	var found []*unstructured.Unstructured
	for _, gvk := range kinds {
		list := object.EmptyList(gvk)
		if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	return Of(namespace, found)
}

// Diff returns the differences between the wanted state and a state, or "" if they are equal.
func Diff(want, got State) string {
	r := &reporter{}
	cmp.Equal(want, got, cmp.Reporter(r))
	return strings.Join(r.lines, "\n")
}

// reporter records the paths at which values differ.
type reporter struct {
	path  cmp.Path
	lines []string
}

// PushStep implements the interface of go-cmp.
func (r *reporter) PushStep(step cmp.PathStep) { r.path = append(r.path, step) }

// PopStep implements the interface of go-cmp.
func (r *reporter) PopStep() { r.path = r.path[:len(r.path)-1] }

// Report implements the interface of go-cmp.
func (r *reporter) Report(result cmp.Result) {
	if !result.Equal() {
		want, got := r.path.Last().Values()
		r.lines = append(r.lines, fmt.Sprintf("%s\n\t- %v\n\t+ %v", r.path.GoString(), want, got))
	}
}

// IDs returns kind and name of every object, sorted.
func (s State) IDs() []string { return slices.Sorted(maps.Keys(s)) }

// foreign reports whether Kubernetes, and not the operator, maintains an object.
func foreign(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "ConfigMap" && obj.GetName() == "kube-root-ca.crt"
}

func id(obj *unstructured.Unstructured) string { return obj.GetKind() + "/" + obj.GetName() }

func podLine(pod *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	var images []string
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			images = append(images, fmt.Sprint(c["image"]))
		}
	}
	if pod.GetDeletionTimestamp() != nil {
		phase = "being deleted"
	}
	return fmt.Sprintf("%s: %s %s", pod.GetLabels()[object.LabelComponent], strings.Join(images, ","), phase)
}

// plainly converts all values to the types of JSON, replaces UIDs by names, and removes the namespace's name.
func plainly(namespace string, known map[types.UID]string, value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	text := uid.ReplaceAllStringFunc(string(data), func(found string) string {
		if name, ok := known[types.UID(found)]; ok {
			return "<" + name + ">"
		}
		return "<unknown>"
	})
	var plain any
	err = json.Unmarshal([]byte(strings.ReplaceAll(text, namespace, "<namespace>")), &plain)
	return plain, err
}

var uid = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// normal returns the compared fields of an object.
func normal(obj *unstructured.Unstructured, known map[types.UID]string) map[string]any {
	content := obj.DeepCopy().Object
	counts := map[string]any{
		"labels":      obj.GetLabels(),
		"annotations": annotations(obj.GetAnnotations()),
		"owners":      owners(obj, known),
		"finalizers":  obj.GetFinalizers(),
		"deleted":     obj.GetDeletionTimestamp() != nil,
	}
	for field, value := range content {
		switch field {
		case "metadata", "status", "apiVersion", "kind":
		default:
			counts[field] = value
		}
	}
	if spec, ok := content["spec"].(map[string]any); ok {
		normalSpec(obj.GetKind(), spec)
	}
	switch obj.GetKind() {
	case "Secret":
		hide(counts["data"])
	case "DataService":
		counts["status"] = status(content["status"])
		return counts
	}
	counts["fields"] = fields(obj.GetManagedFields())
	return counts
}

// AnnotationRollout counts a Deployment's rollouts.
const AnnotationRollout = "deployment.kubernetes.io/revision"

// annotations replaces the values that differ for every namespace or password, such as digests. It removes the annotations that storage
// controllers write.
func annotations(all map[string]string) map[string]string {
	counts := map[string]string{}
	for key, value := range all {
		switch {
		case key == object.AnnotationDigest, strings.HasPrefix(key, "checksum/"):
			counts[key] = "<digest>"
		case key == AnnotationRollout: // the number depends on the history
		case strings.HasPrefix(key, "volume."), strings.HasPrefix(key, "pv.kubernetes.io/"):
		default:
			counts[key] = value
		}
	}
	return counts
}

// owners returns the names of an object's owners, and marks owners that do not exist.
func owners(obj *unstructured.Unstructured, known map[types.UID]string) []string {
	var found []string
	for _, ref := range obj.GetOwnerReferences() {
		text := "gone: " + ref.Kind + "/" + ref.Name
		if name, ok := known[ref.UID]; ok {
			text = name
		}
		if ref.Controller != nil && *ref.Controller {
			text += " (controller)"
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return found
}

func normalSpec(kind string, spec map[string]any) {
	switch kind {
	case "Service":
		normalService(spec)
	case "PersistentVolumeClaim":
		delete(spec, "volumeName")
	}
	for _, path := range [][]string{{"template", "metadata", "annotations"}, {"jobTemplate", "spec", "template", "metadata", "annotations"}} {
		if found, ok, _ := unstructured.NestedStringMap(spec, path...); ok {
			masked := map[string]any{}
			for key, value := range annotations(found) {
				masked[key] = value
			}
			_ = unstructured.SetNestedMap(spec, masked, path...) // cannot fail: the path exists
		}
	}
}

// normalService replaces the values that the API server assigns.
func normalService(spec map[string]any) {
	if ip, ok := spec["clusterIP"].(string); ok && ip != "None" && ip != "" {
		spec["clusterIP"], spec["clusterIPs"] = "<address>", "<address>"
	}
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		if port, ok := port.(map[string]any); ok && port["nodePort"] != nil {
			port["nodePort"] = "<port>"
		}
	}
}

// hide replaces the values in data, and keeps the keys.
func hide(data any) {
	values, _ := data.(map[string]any)
	for key, value := range values {
		if value != "" {
			values[key] = "<value>"
		}
	}
}

// status removes times and revisions (digests), and sorts conditions.
func status(value any) any {
	status, ok := value.(map[string]any)
	if !ok {
		return value
	}
	conditions, _ := status["conditions"].([]any)
	byType := map[string]any{}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			delete(c, "lastTransitionTime")
			byType[fmt.Sprint(c["type"])] = c
		}
	}
	status["conditions"] = byType
	components, _ := status["components"].([]any)
	for _, c := range components {
		c, ok := c.(map[string]any)
		if !ok {
			continue
		}
		delete(c, "lastTransitionTime")
		delete(c, "firstReady") // set only if an operator saw the component leave Running
		if c["revision"] != nil {
			c["revision"] = "<digest>"
		}
	}
	return status
}

// fields returns the fields that the operator owns. (The operator removes an owned field from the object when the spec no longer contains
// the field.)
func fields(managers []metav1.ManagedFieldsEntry) map[string]any {
	owned := map[string]any{}
	for _, m := range managers {
		if !strings.HasPrefix(m.Manager, object.ManagedBy) || m.FieldsV1 == nil {
			continue
		}
		var set any
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &set); err != nil {
			set = err.Error()
		}
		owned[fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.Subresource)] = set
	}
	return owned
}

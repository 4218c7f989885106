// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	strictjson "sigs.k8s.io/json"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

// reader parses a value of the spec strictly, and returns the value that the charts expect.
type reader func(path string, value any) (any, error)

// checks maps the names of fields whose schema the CRD does not specify to readers that validate the fields.
var checks = map[string]reader{
	"resources":        object[corev1.ResourceRequirements],
	"imagePullSecrets": list(pullSecret),

	"ports":            oneProtocol(unique("name", list(servicePort))),
	"configFiles":      unique("path", list(configFile)),
	"rollingUpdate":    rollingUpdate,
	"disruptionBudget": disruptionBudget,

	"labels":             texts(render.LabelKey, validation.IsValidLabelValue),
	"serviceLabels":      texts(render.LabelKey, validation.IsValidLabelValue),
	"nodeSelector":       texts(validation.IsQualifiedName, validation.IsValidLabelValue),
	"annotations":        texts(render.AnnotationKey, nil),
	"serviceAnnotations": texts(render.AnnotationKey, nil),

	"serviceAccountName": subdomain,
	"priorityClassName":  subdomain,
	"credentialsSecret":  subdomain,
}

// serverChecks maps the names of fields from Kubernetes' API that only the API server can validate completely to their readers.
var serverChecks = map[string]reader{
	"securityContext":    object[corev1.SecurityContext],
	"podSecurityContext": object[corev1.PodSecurityContext],
	"affinity":           object[corev1.Affinity],

	"envs":                      list(envVar),
	"envFrom":                   list(anything[corev1.EnvFromSource]),
	"volumeMounts":              list(volumeMount),
	"volumes":                   list(volume),
	"initContainers":            lastVariables(list(container)),
	"sidecars":                  lastVariables(list(container)),
	"tolerations":               list(anything[corev1.Toleration]),
	"topologySpreadConstraints": list(anything[corev1.TopologySpreadConstraint]),

	"probes":   probes,
	"schedule": asGiven,
}

// NeedsDryRun reports whether values have fields that only the API server can validate completely.
func NeedsDryRun(v map[string]any) bool {
	for name := range serverChecks {
		if v[name] != nil {
			return true
		}
	}
	return false
}

// check parses every field that has a check, and replaces the field's value.
func check(path string, fields map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		read := checks[name]
		if read == nil {
			read = serverChecks[name]
		}
		if read == nil {
			continue
		}
		value, err := read(path+"."+name, fields[name])
		if err != nil {
			return err
		}
		fields[name] = value
	}
	return nil
}

func asGiven(_ string, value any) (any, error) { return value, nil }

// peers parses the peers of the network policies.
func peers(objects []dsv1.Object) ([]any, error) {
	found := []any{}
	for i := range objects {
		path := fmt.Sprintf("spec.networkPolicy.allowFrom[%d]", i)
		if err := render.Decode(path, json.RawMessage(objects[i].Raw), &networkingv1.NetworkPolicyPeer{}); err != nil {
			return nil, err
		}
		var peer any
		if err := strictjson.UnmarshalCaseSensitivePreserveInts(objects[i].Raw, &peer); err != nil {
			return nil, render.FieldError(path, "%v", err)
		}
		found = append(found, peer)
	}
	return found, nil
}

// object parses a T and returns the value unchanged.
func object[T any](path string, value any) (any, error) {
	return value, render.Decode(path, value, new(T))
}

// rule returns the field with a problem in an item, and the problem; "" for none.
type rule[T any] func(*T) (field, problem string)

func anything[T any](*T) (field, problem string) { return "", "" }

// list parses a list of T, and checks each item with a rule. It returns the list unchanged, except that it removes nulls.
func list[T any](holds rule[T]) reader {
	return func(path string, value any) (any, error) {
		values, _ := value.([]any)
		for i := range values {
			at := fmt.Sprintf("%s[%d]", path, i)
			item := new(T)
			if err := render.Decode(at, values[i], item); err != nil {
				return nil, err
			}
			if field, problem := holds(item); problem != "" {
				return nil, render.FieldError(at+"."+field, "%s", problem)
			}
			values[i] = withoutNulls(values[i])
		}
		return values, nil
	}
}

// unique refuses two items of a list that have the same value in a field.
func unique(field string, read reader) reader {
	return func(path string, value any) (any, error) {
		values, err := read(path, value)
		if err != nil {
			return nil, err
		}
		first := map[any]int{}
		for i, item := range values.([]any) {
			id := item.(map[string]any)[field]
			if other, ok := first[id]; ok {
				return nil, render.FieldError(fmt.Sprintf("%s[%d].%s", path, i, field), "must be unique: '%v' is also the %s of %s[%d]", id, field, lastOf(path), other)
			}
			first[id] = i
		}
		return values, nil
	}
}

// lastVariables keeps only the last of several variables with the same name, as the chart does for the main container. (Server-side apply
// refuses duplicate names.)
func lastVariables(read reader) reader {
	return func(path string, value any) (any, error) {
		values, err := read(path, value)
		if err != nil {
			return nil, err
		}
		for _, item := range values.([]any) {
			container := item.(map[string]any)
			if envs, ok := container["env"].([]any); ok {
				container["env"] = render.LastOfName(envs, func(e any) any { fields, _ := e.(map[string]any); return fields["name"] })
			}
		}
		return values, nil
	}
}

// lastOf returns the last field of a path.
func lastOf(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// oneProtocol refuses two ports with the same number and protocol, because a Service identifies its ports by both.
func oneProtocol(read reader) reader {
	return func(path string, value any) (any, error) {
		values, err := read(path, value)
		if err != nil {
			return nil, err
		}
		type id struct{ port, protocol any }
		first := map[id]int{}
		for i, item := range values.([]any) {
			port := item.(map[string]any)
			at := id{port["port"], port["protocol"]}
			if at.protocol == nil || at.protocol == "" {
				at.protocol = "TCP"
			}
			if other, ok := first[at]; ok {
				return nil, render.FieldError(fmt.Sprintf("%s[%d].port", path, i), "must be unique: %v/%v is also the port of %s[%d]", at.port, at.protocol, lastOf(path), other)
			}
			first[at] = i
		}
		return values, nil
	}
}

// withoutNulls removes null fields of an object. (null means unset.)
func withoutNulls(value any) any {
	if fields, ok := value.(map[string]any); ok {
		maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	}
	return value
}

// texts parses a map of strings, and checks its names and values with rules.
func texts(name, content func(string) []string) reader {
	return func(path string, value any) (any, error) {
		fields, _ := value.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			if problems := name(k); len(problems) > 0 {
				return nil, render.FieldError(fmt.Sprintf("%s[%s]", path, k), "%s", problems[0])
			}
			if s, _ := fields[k].(string); content != nil {
				if problems := content(s); len(problems) > 0 {
					return nil, render.FieldError(fmt.Sprintf("%s[%s]", path, k), "%s", problems[0])
				}
			}
		}
		return fields, nil
	}
}

func subdomain(path string, value any) (any, error) {
	if s, _ := value.(string); s != "" {
		if problems := validation.IsDNS1123Subdomain(s); len(problems) > 0 {
			return nil, render.FieldError(path, "%s", problems[0])
		}
	}
	return value, nil
}

// decoded parses a T and returns its fields, except the unset ones.
func decoded[T any](path string, value any, into *T) (map[string]any, error) {
	if err := render.Decode(path, value, into); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(into)
}

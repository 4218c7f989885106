// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bounds adds a bound to every list, map and text of a CRD for which the Go type sets no bound, so that no spec takes all of the
// operator's time or memory. It also removes these bounds before a comparison with an older CRD: a review of this package replaces the
// comparison of bounds.
package bounds

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// The bounds refuse no realistic resource. Each is several times the need of a platform with hundreds of pods. A text may be as long as its
// target allows: an argument of a program 128 KiB, all annotations of an object 256 KiB, a ConfigMap 1 MiB.
const (
	text       = 1024
	statusText = 4096 // internal/reconcile cuts texts to this number of bytes
	items      = 250
	statusItem = 2000
	entries    = 200
)

// lengths contains the bounds of texts, by the name of the field. If the field is a list or a map, the bound applies to its items.
var lengths = map[string]int64{
	"args": 128 << 10, "command": 128 << 10, "env": 128 << 10, "value": 128 << 10, "annotations": 256 << 10, "serviceAnnotations": 256 << 10,
	"labels": 63, "serviceLabels": 63, "nodeSelector": 63, "matchLabels": 63, "config": 1 << 20, "custom": 64 << 10,
}

// counts contains the bounds of lists and maps, by the name of the field.
var counts = map[string]int64{
	"args": 1000, "command": 1000, "env": 500, "envs": 500, "envFrom": 100, "config": 1000, "sidecars": 30, "initContainers": 30,
	"labels": 100, "serviceLabels": 100, "nodeSelector": 100, "tolerations": 100, "topologySpreadConstraints": 50, "imagePullSecrets": 50,
	"ports": 64, "conditions": 50,
}

// Apply sets the missing bounds.
func Apply(schema *apiextensionsv1.JSONSchemaProps) {
	for _, part := range []string{"spec", "status"} {
		if s, ok := schema.Properties[part]; ok {
			walk(&s, place{isStatus: part == "status"}, set)
			schema.Properties[part] = s
		}
	}
}

// Remove removes the bounds that Apply has added to newer, unless older also has them.
func Remove(older, newer *apiextensionsv1.JSONSchemaProps) {
	for _, part := range []string{"spec", "status"} {
		n, ok := newer.Properties[part]
		o, known := older.Properties[part]
		if !ok || !known {
			continue
		}
		walkBoth(&o, &n, place{isStatus: part == "status"})
		newer.Properties[part] = n
	}
}

// place describes the position of a schema.
type place struct {
	name     string // name of the field; items and entries have the name of their list or map
	isStatus bool
}

func (p place) length() *int64 {
	switch length, ok := lengths[p.name]; {
	case p.isStatus:
		return ptr.To[int64](statusText)
	case ok:
		return &length
	}
	return ptr.To[int64](text)
}

func (p place) count(otherwise int64) *int64 {
	if p.isStatus {
		otherwise = statusItem
	} else if count, ok := counts[p.name]; ok {
		otherwise = count
	}
	return &otherwise
}

// want returns the bounds that a schema needs at a position, or nil.
func want(s *apiextensionsv1.JSONSchemaProps, at place) (maxLength, maxItems, maxProperties *int64) {
	switch {
	case s.Type == "string" && len(s.Enum) == 0 && s.Format != "date-time", s.XIntOrString:
		return at.length(), nil, nil
	case s.Type == "array":
		return nil, at.count(items), nil
	case s.AdditionalProperties != nil:
		return nil, nil, at.count(entries)
	}
	// internal/render bounds the objects whose fields the CRD does not list.
	return nil, nil, nil
}

func set(s *apiextensionsv1.JSONSchemaProps, at place) {
	for _, bound := range pairs(s, at) {
		if *bound.has == nil {
			*bound.has = bound.want
		}
	}
}

// pair holds a present bound and the required bound.
type pair struct {
	has  **int64
	want *int64
}

func pairs(s *apiextensionsv1.JSONSchemaProps, at place) []pair {
	length, list, object := want(s, at)
	return []pair{{&s.MaxLength, length}, {&s.MaxItems, list}, {&s.MaxProperties, object}}
}

func walk(s *apiextensionsv1.JSONSchemaProps, at place, visit func(*apiextensionsv1.JSONSchemaProps, place)) {
	visit(s, at)
	for name, property := range s.Properties {
		walk(&property, place{name, at.isStatus}, visit)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, at, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, at, visit)
	}
}

func walkBoth(older, newer *apiextensionsv1.JSONSchemaProps, at place) {
	has := pairs(newer, at)
	for i, bound := range pairs(older, at) {
		if *bound.has == nil && *has[i].has != nil && has[i].want != nil && **has[i].has == *has[i].want {
			*has[i].has = nil
		}
	}
	for name, property := range newer.Properties {
		if before, ok := older.Properties[name]; ok {
			walkBoth(&before, &property, place{name, at.isStatus})
			newer.Properties[name] = property
		}
	}
	if older.Items != nil && newer.Items != nil {
		walkBoth(older.Items.Schema, newer.Items.Schema, at)
	}
	if older.AdditionalProperties != nil && newer.AdditionalProperties != nil && older.AdditionalProperties.Schema != nil && newer.AdditionalProperties.Schema != nil {
		walkBoth(older.AdditionalProperties.Schema, newer.AdditionalProperties.Schema, at)
	}
}

// Missing returns the paths in a schema that lack a required bound.
func Missing(schema *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	var look func(s *apiextensionsv1.JSONSchemaProps, path string, at place)
	look = func(s *apiextensionsv1.JSONSchemaProps, path string, at place) {
		for _, bound := range pairs(s, at) {
			if bound.want != nil && *bound.has == nil {
				found = append(found, strings.TrimPrefix(path, "."))
			}
		}
		for name, property := range s.Properties {
			look(&property, path+"."+name, place{name, at.isStatus})
		}
		if s.Items != nil && s.Items.Schema != nil {
			look(s.Items.Schema, path+"[]", at)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			look(s.AdditionalProperties.Schema, path+".*", at)
		}
	}
	for _, part := range []string{"spec", "status"} {
		if s, ok := schema.Properties[part]; ok {
			look(&s, part, place{isStatus: part == "status"})
		}
	}
	return found
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/fields"
)

//go:embed corpus.yaml bases
var files embed.FS

// entry is what the corpus says of a property.
type entry struct {
	Values    []any          `json:"values"`
	With      map[string]any `json:"with"`
	Bad       []any          `json:"bad"`
	Refused   []any          `json:"refused"`
	Silent    string         `json:"silent"`
	All       bool           `json:"all"`
	Shares    bool           `json:"shares"`
	Replaces  bool           `json:"replaces"` // an object is deleted and created anew for it
	Elsewhere string         `json:"elsewhere"`
}

// load reads the properties of the CRD and gives each its values.
func load() ([]*property, error) {
	schema, err := specSchema()
	if err != nil {
		return nil, err
	}
	data, err := files.ReadFile("corpus.yaml")
	if err != nil {
		return nil, err
	}
	corpus := map[string]*entry{}
	if err := yaml.UnmarshalStrict(data, &corpus); err != nil {
		return nil, fmt.Errorf("read corpus.yaml: %w", err)
	}
	found := properties(schema)
	for _, p := range found {
		p.entry = lookup(corpus, p)
		if len(p.entry.Values) == 0 {
			p.entry.Values = derived(p.schema)
		}
		p.entry.Shares = p.entry.Shares || reaches(p)
		p.entry.Refused = append(p.entry.Refused, wrongType(p.schema))
	}
	return found, nil
}

// reaches reports whether others' manifests follow a property: it is of the whole, or part of the
// address of a component that others call.
func reaches(p *property) bool {
	switch p.component() {
	case "defaults", "networkPolicy", "rollout", "paused":
		return true
	case "additionalServices", "cronJobs": // by its name, the component is another
		return len(p.path) == 2 && p.leaf() == "name"
	case "mysql", "uuc", "eureka", "proxy", "gateway-master":
		return len(p.path) == 2 && (p.leaf() == "name" || p.leaf() == "port")
	}
	return false
}

// lookup returns a copy of the entry with the longest path that a property ends in.
func lookup(corpus map[string]*entry, p *property) *entry {
	for i := range p.path {
		if e, ok := corpus[strings.Join(p.path[i:], ".")]; ok {
			copied := *e
			return &copied
		}
	}
	return &entry{}
}

// derived are the values of a property that the schema alone gives.
func derived(schema *apiextensionsv1.JSONSchemaProps) []any {
	var values []any
	switch {
	case len(schema.Enum) > 0:
		for _, raw := range schema.Enum {
			if schema.Default == nil || string(raw.Raw) != string(schema.Default.Raw) {
				values = append(values, decode(raw.Raw))
			}
		}
	case schema.Type == "boolean":
		values = append(values, true)
	case schema.Type == "integer":
		least, most := limits(schema)
		values = append(values, least, most, min(least+2, most))
		if schema.Default != nil && decode(schema.Default.Raw) == values[0] {
			values = values[1:]
		}
	}
	return values
}

// limits of a number; where the schema has none, those of its type.
func limits(schema *apiextensionsv1.JSONSchemaProps) (least, most int64) {
	least, most = math.MinInt32, math.MaxInt32
	if schema.Minimum != nil {
		least = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		most = int64(*schema.Maximum)
	}
	return least, most
}

// wrongType is a value of another type.
func wrongType(schema *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case schema.XIntOrString:
		return []any{"list"}
	case schema.Type == "string":
		return int64(7)
	case schema.Type == "object", schema.Type == "array":
		return "text"
	}
	return "seven"
}

func decode(raw []byte) any {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		panic(fmt.Sprintf("the schema holds %s: %v", raw, err))
	}
	return value
}

// clone copies a spec.
func clone(spec map[string]any) map[string]any { return fields.Plain(spec) }

// base reads one of the specs that are changed.
func base(name string) (map[string]any, error) {
	data, err := files.ReadFile("bases/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	spec := map[string]any{}
	if err := yaml.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("read the base %s: %w", name, err)
	}
	return clone(spec), nil
}

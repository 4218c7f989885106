// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
)

//go:embed corpus.yaml bases
var files embed.FS

// entry contains the test values of one property of the spec, and the rules for them. The head of corpus.yaml explains the fields.
type entry struct {
	Values    []any          `json:"values"`
	With      map[string]any `json:"with"`
	Bad       []any          `json:"bad"`
	Refused   []any          `json:"refused"`
	Silent    string         `json:"silent"`
	All       bool           `json:"all"`
	Shares    bool           `json:"shares"`
	Replaces  bool           `json:"replaces"` // the change deletes and creates an object
	Elsewhere string         `json:"elsewhere"`
}

// load reads the properties of the CRD and their values.
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

// reaches reports whether a property changes the manifests of other components: a property of the whole platform, or of the address of a
// component that other components call.
func reaches(p *property) bool {
	switch p.component() {
	case "defaults", "networkPolicy", "rollout", "paused", "hibernate":
		return true
	case "additionalServices", "cronJobs": // another name creates another component
		return len(p.path) == 2 && p.leaf() == "name"
	case "mysql", "uuc", "eureka", "proxy", "gateway-master":
		return len(p.path) == 2 && (p.leaf() == "name" || p.leaf() == "port")
	}
	return false
}

// lookup returns a copy of the entry with the longest path that is a suffix of the property's path.
func lookup(corpus map[string]*entry, p *property) *entry {
	for i := range p.path {
		if e, ok := corpus[strings.Join(p.path[i:], ".")]; ok {
			copied := *e
			return &copied
		}
	}
	return &entry{}
}

// derived returns the values of a property that follow from its schema alone.
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

// limits returns the limits of a number: those of the schema, or those of its type.
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

// wrongType returns a value of another type.
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

// clone returns a copy of a spec.
func clone(spec map[string]any) map[string]any { return fields.Plain(spec) }

// base reads one of the specs that the suite changes.
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

const crdFile = "config/crd/bases/d3os-product.com.d3os_dataservices.yaml"

// property is a leaf of the spec's schema.
type property struct {
	path   []string // names with the suffix [] are lists of named items
	schema *apiextensionsv1.JSONSchemaProps
	entry  *entry // entry of the corpus
	left   bool   // the short form tests the same property of another component instead
}

func (p *property) String() string { return strings.Join(p.path, ".") }

// leaf returns the last part of the property's path.
func (p *property) leaf() string { return strings.TrimSuffix(p.path[len(p.path)-1], "[]") }

// component returns the part of the spec that the property belongs to.
func (p *property) component() string { return strings.TrimSuffix(p.path[0], "[]") }

// specSchema reads the schema of the spec from the CRD.
func specSchema() (*apiextensionsv1.JSONSchemaProps, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := harness.ReadYAML(crdFile, crd); err != nil {
		return nil, err
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	// Excluded: the simulated pods of this suite run no servers, so no Redis Cluster and no etcd becomes ready. A DataService copies
	// spec.redis and spec.etcd to a RedisCluster and an EtcdCluster; test/fields checks each copied field. test/rediscluster and
	// test/etcdcluster change every field with real servers, with and without a DataService.
	delete(spec.Properties, "redis")
	delete(spec.Properties, "etcd")
	// Excluded: a mysql with several members needs real servers, too. See test/fields and test/mysqlcluster.
	delete(spec.Properties["mysql"].Properties, "replication")
	// Excluded: spec.mongodb becomes a resource of another operator. test/fields checks each field, and test/behaviour its readiness.
	delete(spec.Properties, "mongodb")
	// Excluded: this suite cannot make or restore a backup. test/backup tests spec.mysql.backup and spec.mysql.restoreFrom.
	delete(spec.Properties["mysql"].Properties, "backup")
	delete(spec.Properties["mysql"].Properties, "restoreFrom")
	delete(spec.Properties["mysql"].Properties, "importFrom") // the agent imports the data: see cmd/agent/test
	return &spec, nil
}

// properties returns every leaf of a schema, sorted.
func properties(schema *apiextensionsv1.JSONSchemaProps, at ...string) []*property {
	var found []*property
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		next := schema.Properties[name]
		within, path := &next, append(slices.Clone(at), name)
		if next.Items != nil && len(next.Items.Schema.Properties) > 0 {
			within, path[len(at)] = next.Items.Schema, name+"[]"
		}
		if len(within.Properties) == 0 {
			found = append(found, &property{path: path, schema: &next})
		}
		found = append(found, properties(within, path...)...)
	}
	return found
}

// items maps each list of named items to the name of the item that is changed.
var items = map[string]string{
	"additionalServices[]": "reports", "cronJobs[]": "clean-up", "users[]": "reporter", "initScripts[]": "more-tables", "gateways[]": "public",
}

// alike returns a key that is equal for similar properties: properties with the same name in the same chart, and properties of middleware
// and cron jobs, which share charts. The key is empty for a property without similar properties.
func alike(p *property) string {
	name := strings.Join(p.path[1:], ".")
	switch {
	case len(p.path) == 1 || slices.Contains(p.path, "thirdParty") || p.leaf() == "kind":
		return ""
	case p.component() == "additionalServices" && p.leaf() == "replica":
		return ""
	case where(p) == "services", p.component() == "additionalServices":
		return "services " + name
	case reaches(p) || where(p) == "middleware" && !slices.Contains([]string{"mysql", "eureka", "uuc"}, p.component()):
		return ""
	}
	return "others " + name
}

// takeTurns selects, for each property that several components share, the component in which the short form tests the property.
func takeTurns(all []*property) {
	holders := map[string][]*property{}
	for _, p := range all {
		if name := alike(p); name != "" {
			holders[name] = append(holders[name], p)
		}
	}
	for turn, name := range slices.Sorted(maps.Keys(holders)) {
		for i, p := range holders[name] {
			p.left = i != turn%len(holders[name])
		}
	}
}

// holderOf returns the object that contains a property, and creates missing objects on the path.
func holderOf(spec map[string]any, path []string) map[string]any {
	at := spec
	for _, part := range path[:len(path)-1] {
		item, isList := items[part]
		name := strings.TrimSuffix(part, "[]")
		if !isList {
			next, _ := at[name].(map[string]any)
			if next == nil {
				next = map[string]any{}
				at[name] = next
			}
			at = next
			continue
		}
		list, _ := at[name].([]any)
		i := slices.IndexFunc(list, func(v any) bool { return v.(map[string]any)["name"] == item })
		if i < 0 {
			list, i = append(list, map[string]any{"name": item}), len(list)
			at[name] = list
		}
		at = list[i].(map[string]any)
	}
	return at
}

// set sets the value of a property, and the other fields that the corpus requires for this value.
func (p *property) set(spec map[string]any, value any, with map[string]any) {
	at := holderOf(spec, p.path)
	maps.Copy(at, clone(with))
	at[p.leaf()] = fields.Plain(value)
}

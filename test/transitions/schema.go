// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
)

const crdFile = "config/crd/bases/d3os-product.com.d3os_dataservices.yaml"

// property is one property of the spec without properties of its own in the schema.
type property struct {
	path   []string // the parts of lists of named things end in []
	schema *apiextensionsv1.JSONSchemaProps
	entry  *entry // of the corpus
	left   bool   // by the short form to another component, which has it alike
}

func (p *property) String() string { return strings.Join(p.path, ".") }

// leaf is the property's own name.
func (p *property) leaf() string { return strings.TrimSuffix(p.path[len(p.path)-1], "[]") }

// component is the part of the spec that the property belongs to.
func (p *property) component() string { return strings.TrimSuffix(p.path[0], "[]") }

// specSchema reads the schema of the spec from the CRD.
func specSchema() (*apiextensionsv1.JSONSchemaProps, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := harness.ReadYAML(crdFile, crd); err != nil {
		return nil, err
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	// The simulated pods of this suite run no servers, so that no Redis Cluster and no etcd would ever become ready. A
	// DataService only hands spec.redis and spec.etcd on to a RedisCluster and an EtcdCluster: test/fields has what each field
	// becomes there, and test/rediscluster and test/etcdcluster change every field of these, and the DataService around
	// them, with real servers.
	delete(spec.Properties, "redis")
	delete(spec.Properties, "etcd")
	// Nor would a backup ever be made or restored: test/backup has spec.mysql.backup and spec.mysql.restoreFrom.
	delete(spec.Properties["mysql"].Properties, "backup")
	delete(spec.Properties["mysql"].Properties, "restoreFrom")
	return &spec, nil
}

// properties returns every property of a schema that has none of its own, sorted.
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

// items names the item of each list of named things that is changed.
var items = map[string]string{
	"additionalServices[]": "reports", "cronJobs[]": "clean-up", "users[]": "reporter", "initScripts[]": "more-tables",
}

// alike says which properties are alike: those of one name of what runs of the same chart, and those
// of middleware and cron jobs, whose charts share them. It is empty for what stands for itself.
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

// takeTurns leaves each property that several components have alike to one of them, by turns.
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

// holderOf finds the object that holds a property, and makes what is missing on the way.
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

// set gives a property a value, and its object what else it needs then.
func (p *property) set(spec map[string]any, value any, with map[string]any) {
	at := holderOf(spec, p.path)
	maps.Copy(at, clone(with))
	at[p.leaf()] = fields.Plain(value)
}

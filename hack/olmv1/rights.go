// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds maps the kinds in the bundles to their resources; true for namespaced resources.
var kinds = map[string]struct {
	resource   schema.GroupResource
	namespaced bool
}{
	"ClusterRole":              {schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, false},
	"CustomResourceDefinition": {schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, false},
	"Service":                  {schema.GroupResource{Resource: "services"}, true},
	"PodDisruptionBudget":      {schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, true},
}

// names maps a resource to names of objects.
type names map[schema.GroupResource]map[string]bool

func (n names) add(resource schema.GroupResource, name string) {
	if n[resource] == nil {
		n[resource] = map[string]bool{}
	}
	n[resource][name] = true
}

// rights are the objects to write, and the rights to grant.
type rights struct {
	cluster, namespaced names
	given               map[grant]map[string]bool // verbs of each grant
}

// grant is the target of a right: a path, or a resource. name is set if the right is limited to one object.
type grant struct{ group, resource, name, path string }

func newRights() *rights {
	r := &rights{cluster: names{}, namespaced: names{}, given: map[grant]map[string]bool{}}
	// On some clusters, the API server requires this right to make the extension the owner of installed objects.
	r.give([]rbacv1.PolicyRule{{
		Verbs: []string{"update"}, APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clusterextensions/finalizers"},
		ResourceNames: []string{extension},
	}})
	return r
}

func (r *rights) add(b *bundle) error {
	for _, m := range b.others {
		kind, known := kinds[m.Kind]
		if !known {
			return fmt.Errorf("%s %s: add the kind to the table of kinds", m.Kind, m.Metadata.Name)
		}
		if kind.namespaced {
			r.namespaced.add(kind.resource, m.Metadata.Name)
		} else {
			r.cluster.add(kind.resource, m.Metadata.Name)
		}
		r.give(m.Rules)
	}
	for _, p := range b.permissions() {
		name, err := b.roleName(p)
		if err != nil {
			return err
		}
		r.cluster.add(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, name)
		r.cluster.add(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}, name)
		r.namespaced.add(schema.GroupResource{Resource: "serviceaccounts"}, p.ServiceAccountName)
		r.give(p.Rules)
	}
	for _, d := range b.csv.Spec.Install.Spec.Deployments {
		r.namespaced.add(schema.GroupResource{Group: "apps", Resource: "deployments"}, d.Name)
	}
	return nil
}

func (r *rights) give(rules []rbacv1.PolicyRule) {
	add := func(g grant, verbs []string) {
		if r.given[g] == nil {
			r.given[g] = map[string]bool{}
		}
		for _, verb := range verbs {
			r.given[g][verb] = true
		}
	}
	for _, rule := range rules {
		for _, path := range rule.NonResourceURLs {
			add(grant{path: path}, rule.Verbs)
		}
		objects := rule.ResourceNames
		if len(objects) == 0 {
			objects = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range objects {
					add(grant{group: group, resource: resource, name: name}, rule.Verbs)
				}
			}
		}
	}
}

// writes returns the rules to write objects. A rule for create or list cannot name objects. OLM v1 watches its installed objects in all
// namespaces, so a Role cannot grant the right to watch.
func writes(objects names, unnamed ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, resource := range slices.SortedFunc(maps.Keys(objects), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
		rule := rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}}
		all, some := rule, rule
		all.Verbs = unnamed
		some.Verbs = []string{"delete", "get", "patch", "update"}
		some.ResourceNames = slices.Sorted(maps.Keys(objects[resource]))
		rules = append(rules, all, some)
	}
	return rules
}

// watched returns the rules to watch the resources in all namespaces.
func (r *rights) watched() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for resource := range r.namespaced {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"list", "watch"}})
	}
	return rules
}

// passedOn returns the rights to grant. It combines the resources of a group that have the same verbs into one rule.
func (r *rights) passedOn() []rbacv1.PolicyRule {
	type key struct{ group, name, verbs string }
	byVerbs := map[key][]string{}
	var rules []rbacv1.PolicyRule
	for g, verbs := range r.given {
		sorted := slices.Sorted(maps.Keys(verbs))
		if g.path != "" {
			rules = append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{g.path}, Verbs: sorted})
			continue
		}
		k := key{g.group, g.name, strings.Join(sorted, ",")}
		byVerbs[k] = append(byVerbs[k], g.resource)
	}
	for k, resources := range byVerbs {
		slices.Sort(resources)
		rule := rbacv1.PolicyRule{APIGroups: []string{k.group}, Resources: resources, Verbs: strings.Split(k.verbs, ",")}
		if k.name != "" {
			rule.ResourceNames = []string{k.name}
		}
		rules = append(rules, rule)
	}
	order := func(rule rbacv1.PolicyRule) string {
		return fmt.Sprint(rule.NonResourceURLs, rule.APIGroups, rule.Resources, rule.ResourceNames)
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int { return cmp.Compare(order(a), order(b)) })
	return rules
}

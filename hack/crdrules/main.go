// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdrules prepares two CRDs for crdify, which reports any change of a CEL rule as dangerous. It writes copies that omit the
// messages of rules, reviewed changes of rules, and the bounds that package bounds adds:
//
//	crdrules [-all] REVIEWED OLD NEW OLD-COPY NEW-COPY
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/hack/crd/bounds"
)

// review is a change that was reviewed and found to be safe.
type review struct {
	// CRD is the name of the CRD; by default, the CRD of DataServices.
	CRD string `json:"crd,omitempty"`
	// Path is the path of the schema, such as spec.mysql.
	Path string `json:"path"`
	// Added or Removed is the exact text of the rule.
	Added   string `json:"added,omitempty"`
	Removed string `json:"removed,omitempty"`
	// Pattern is the exact text of the newer pattern, which accepts every text that the older pattern accepts.
	Pattern string `json:"pattern,omitempty"`
	// Default is a default of the older schema, as JSON, that the newer schema lacks. In the path of this review, `*` stands for any text.
	Default string `json:"default,omitempty"`
	// Why explains why the change harms no existing resource.
	Why string `json:"why"`
}

func main() {
	all := flag.Bool("all", false, "fail when a reviewed change does not exist between these CRDs")
	flag.Parse()
	if flag.NArg() != 5 {
		flag.Usage()
		os.Exit(2)
	}
	if err := prepare(flag.Args(), *all); err != nil {
		fmt.Fprintf(os.Stderr, "prepare the comparison of %s with %s: %v\n", flag.Arg(2), flag.Arg(1), err)
		os.Exit(1)
	}
}

func prepare(files []string, all bool) error {
	var reviews []review
	var older, newer apiextensionsv1.CustomResourceDefinition
	for i, into := range []any{&reviews, &older, &newer} {
		data, err := os.ReadFile(files[i])
		if err != nil {
			return err
		}
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			return fmt.Errorf("%s: %w", files[i], err)
		}
	}
	removeBounds(&older, &newer)
	if err := dropReviewed(&older, &newer, reviews, all); err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	for i, crd := range []*apiextensionsv1.CustomResourceDefinition{&older, &newer} {
		data, err := yaml.Marshal(crd)
		if err != nil {
			return err
		}
		if err := os.WriteFile(files[3+i], data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// dropReviewed removes the reviewed changes from both CRDs. If all is set, it returns an error for a review without a change.
func dropReviewed(older, newer *apiextensionsv1.CustomResourceDefinition, reviews []review, all bool) error {
	before, after := rules(older), rules(newer)
	for _, r := range reviews {
		if r.Why == "" {
			return fmt.Errorf("the change of %s does not give the reason why it is safe", r.Path)
		}
		if cmp.Or(r.CRD, "dataservices.d3os-product.com.d3os") != newer.Name {
			continue
		}
		added := at{r.Path, r.Added}
		removed := at{r.Path, r.Removed}
		switch {
		case r.Added != "" && after[added] && !before[added]:
			drop(newer, added)
		case r.Removed != "" && before[removed] && !after[removed]:
			drop(older, removed)
		case r.Pattern != "" && hasPattern(newer, r) && !hasPattern(older, r):
			dropPattern(older, r.Path)
			dropPattern(newer, r.Path)
		case r.Default != "" && dropDefault(older, newer, r):
		case all:
			return fmt.Errorf("the reviewed change of %s does not exist between these CRDs: remove the review", r.Path)
		}
	}
	return nil
}

// removeBounds removes the bounds that package bounds adds from the newer CRD, unless the older CRD has them.
func removeBounds(older, newer *apiextensionsv1.CustomResourceDefinition) {
	for i := range newer.Spec.Versions {
		for j := range older.Spec.Versions {
			if newer.Spec.Versions[i].Name == older.Spec.Versions[j].Name {
				bounds.Remove(older.Spec.Versions[j].Schema.OpenAPIV3Schema, newer.Spec.Versions[i].Schema.OpenAPIV3Schema)
			}
		}
	}
}

// at is a rule with the path of its schema.
type at struct{ path, rule string }

// rules returns all rules of a CRD. It removes the messages of rules, because a message may change as a description may.
func rules(crd *apiextensionsv1.CustomResourceDefinition) map[at]bool {
	found := map[at]bool{}
	each(crd, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		for i := range schema.XValidations {
			schema.XValidations[i].Message = ""
			found[at{path, schema.XValidations[i].Rule}] = true
		}
	})
	return found
}

func drop(crd *apiextensionsv1.CustomResourceDefinition, rule at) {
	each(crd, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if path == rule.path {
			schema.XValidations = slices.DeleteFunc(schema.XValidations, func(v apiextensionsv1.ValidationRule) bool { return v.Rule == rule.rule })
		}
	})
}

// hasPattern reports whether a CRD has the pattern of a review.
func hasPattern(crd *apiextensionsv1.CustomResourceDefinition, r review) (has bool) {
	each(crd, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		has = has || path == r.Path && schema.Pattern == r.Pattern
	})
	return has
}

// dropDefault removes the default in a review from the older CRD if the newer CRD has none. It reports whether it did. The API server
// accepts null for a field with a default, and replaces it by the default. Therefore the newer field may be nullable instead.
func dropDefault(older, newer *apiextensionsv1.CustomResourceDefinition, r review) (dropped bool) {
	has, nullable := map[string]bool{}, map[string]bool{}
	each(newer, func(at string, schema *apiextensionsv1.JSONSchemaProps) {
		has[at], nullable[at] = schema.Default != nil, schema.Nullable
	})
	each(older, func(at string, schema *apiextensionsv1.JSONSchemaProps) {
		is, err := path.Match(r.Path, at)
		if err == nil && is && !has[at] && schema.Default != nil && string(schema.Default.Raw) == r.Default {
			schema.Default, schema.Nullable, dropped = nil, nullable[at], true
		}
	})
	return dropped
}

func dropPattern(crd *apiextensionsv1.CustomResourceDefinition, of string) {
	each(crd, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if path == of {
			schema.Pattern = ""
		}
	})
}

// each visits every schema of a CRD with its path.
func each(crd *apiextensionsv1.CustomResourceDefinition, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	var walk func(string, *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		visit(path, schema)
		for name := range schema.Properties {
			property := schema.Properties[name]
			walk(strings.TrimPrefix(path+"."+name, "."), &property)
			schema.Properties[name] = property
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			walk(path+".items", schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			walk(path+".*", schema.AdditionalProperties.Schema)
		}
	}
	for i := range crd.Spec.Versions {
		walk("", crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
	}
}

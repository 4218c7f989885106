// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crd removes the examples from a generated CRD, and bounds every list, map and text in it. The examples are for the API reference.
// The CRD would contain each example up to fifteen times, in copies of a component's schema. A client-side kubectl apply stores the CRD in
// an annotation, whose size is limited.
package main

import (
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/hack/crd/bounds"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := slim(file); err != nil {
			fmt.Fprintf(os.Stderr, "remove the examples from %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func slim(file string) error {
	data, err := os.ReadFile(file) //nolint:gosec // the Makefile names the file
	if err != nil {
		return err
	}
	var document map[string]any
	if err := yaml.UnmarshalStrict(data, &document); err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return err
	}
	for i := range crd.Spec.Versions {
		withoutExamples(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
		bounds.Apply(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
	}
	// Encoding the whole Go type would add an empty status.
	document["spec"] = crd.Spec
	if data, err = yaml.Marshal(document); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), data...), 0o644) //nolint:gosec // the mode of controller-gen
}

func withoutExamples(schema *apiextensionsv1.JSONSchemaProps) {
	if schema == nil {
		return
	}
	schema.Example = nil
	for name, property := range schema.Properties {
		withoutExamples(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		withoutExamples(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		withoutExamples(schema.AdditionalProperties.Schema)
	}
}

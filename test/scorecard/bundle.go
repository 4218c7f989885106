// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// examplesOf returns the DataServices among the alm-examples of the bundle's CSV, those named or all.
func examplesOf(bundle string, names []string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%s is no bundle: it has %d CSVs", bundle, len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	var csv metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(data, &csv); err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	var objects []map[string]any
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &objects); err != nil {
		return nil, fmt.Errorf("%s: alm-examples: %w", files[0], err)
	}
	var examples []*unstructured.Unstructured
	var known []string
	for _, object := range objects {
		example := &unstructured.Unstructured{Object: object}
		if example.GetKind() != dsv1.Kind {
			continue
		}
		known = append(known, example.GetName())
		if len(names) == 0 || slices.Contains(names, example.GetName()) {
			examples = append(examples, example)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the bundle has no example %q, but %q", name, known)
		}
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("%s: alm-examples holds no %s", files[0], dsv1.Kind)
	}
	return examples, nil
}

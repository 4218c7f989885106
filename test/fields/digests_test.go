// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/platform/plan"
)

const (
	// digestsOf is the folder with the inputs and a list of digests of each release.
	digestsOf = "testdata/upgrade"
	separator = "\n---\n"
)

// digests returns the digest of every rendered manifest for the inputs, by "<DataService> <Kind>/<name>".
func digests() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(digestsOf, "inputs", "*.yaml"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for input := range strings.SplitSeq(string(content), separator) {
			if err := addDigests(input, found); err != nil {
				return nil, fmt.Errorf("render the DataServices in %s: %w", file, err)
			}
		}
	}
	return found, nil
}

func addDigests(input string, into map[string]string) error {
	ds := metav1.PartialObjectMetadata{}
	if err := yaml.Unmarshal([]byte(input), &ds); err != nil {
		return err
	}
	var manifests bytes.Buffer
	if err := plan.Run([]string{"-kube-version", kubeVersion}, strings.NewReader(input), &manifests); err != nil {
		return fmt.Errorf("%s: %w", ds.Name, err)
	}
	// An empty DataService renders nothing.
	if manifests.Len() == 0 {
		return nil
	}
	for manifest := range strings.SplitSeq(strings.TrimPrefix(manifests.String(), separator[1:]), separator) {
		object := metav1.PartialObjectMetadata{}
		if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
			return fmt.Errorf("read a manifest of %s: %w", ds.Name, err)
		}
		id := fmt.Sprintf("%s %s/%s", ds.Name, object.Kind, object.Name)
		if object.Annotations[digest] == "" {
			return fmt.Errorf("%s has no annotation %s", id, digest)
		}
		if _, twice := into[id]; twice {
			return fmt.Errorf("%s exists twice", id)
		}
		into[id] = object.Annotations[digest]
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command upgrade prints the digest of every manifest that this operator renders for the DataServices in testdata/inputs. An operator
// writes an object when its digest has changed, so the list of a release, testdata/v<version>.txt, shows the writes of an upgrade from that
// release.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/test/cluster"
)

const (
	testdata = "test/upgrade/testdata"
	// digest is the annotation that decides whether an object is written. It is spelled out, as
	// its name must not change either: an object without it is not known to be the operator's.
	digest = "d3os-product.com.d3os/digest"
	// kubeVersion is fixed, as charts may render other manifests for other versions.
	kubeVersion = "v1.36.0"
	separator   = "\n---\n"
)

func main() {
	digests, err := render()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
	for _, object := range slices.Sorted(maps.Keys(digests)) {
		fmt.Println(object, digests[object])
	}
}

// render returns the digests of all manifests by "<DataService> <Kind>/<name>".
func render() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(cluster.Root(), testdata, "inputs", "*.yaml"))
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for input := range strings.SplitSeq(string(content), separator) {
			if err := renderOne(input, digests); err != nil {
				return nil, fmt.Errorf("render the DataServices in %s: %w", file, err)
			}
		}
	}
	return digests, nil
}

func renderOne(input string, into map[string]string) error {
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
			return fmt.Errorf("%s is there twice", id)
		}
		into[id] = object.Annotations[digest]
	}
	return nil
}

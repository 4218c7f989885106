// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command relatedimages writes a patch for the operator's container: a variable RELATED_IMAGE_* for each default image of the charts. A
// catalog lists these images for mirrors, and may replace them.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/etcd"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/redis"
)

type object = map[string]any

func main() {
	images := values.DefaultImages()
	maps.Copy(images, redis.DefaultImages())
	maps.Copy(images, etcd.DefaultImages())
	maps.Copy(images, cluster.DefaultImages())
	var env []object
	for _, key := range slices.Sorted(maps.Keys(images)) {
		env = append(env, object{"name": values.RelatedImage(key), "value": images[key]})
	}
	container := object{"name": "manager", "env": env}
	patch, err := yaml.Marshal(object{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   object{"name": "controller-manager", "namespace": "system"},
		"spec":       object{"template": object{"spec": object{"containers": []object{container}}}},
	})
	if err == nil {
		const head = "# The default images of the charts, written by make manifests.\n"
		err = os.WriteFile(os.Args[1], append([]byte(head), patch...), 0o644) //nolint:gosec // the caller names the file to write
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

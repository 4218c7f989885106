// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// The API server's limits for the data of a ConfigMap, and for an object's annotations.
const (
	maxData        = 1 << 20
	maxAnnotations = 256 << 10
)

// maxInput limits the chart values of all components together. Fields that apply to all components (defaults, networkPolicy) count once per
// component: with 200 components, 1 MB of such fields becomes 200 MB, more than the operator's memory limit.
const (
	maxInput     = 4 << 20
	tooMuchInput = "too large: its components get more than 4 MiB of fields in all, and defaults and networkPolicy count once for each component: shorten defaults and networkPolicy, or split the DataService"
)

// maxSettings limits the settings of all components together. (Each setting is written to a file separately.)
const (
	maxSettings     = 10_000
	tooManySettings = "too large: its components have more than 10000 settings (config) in all: use configFiles, or split the DataService"
)

func configOf(values map[string]any) map[string]any {
	config, _ := values["config"].(map[string]any)
	return config
}

// checkSizes refuses objects whose size the API server would refuse. It runs before any object is written.
func checkSizes(c *component.Component, object *unstructured.Unstructured) error {
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	field := "config"
	if strings.HasSuffix(object.GetName(), "-files") {
		field = "configFiles"
	}
	size := 0
	for _, text := range data { // key names do not count
		size += len(text)
	}
	if object.GetKind() == "ConfigMap" && size > maxData {
		return tooLarge(c, field, "it has %d bytes, but a ConfigMap holds at most 1 MiB (1048576): mount large files from your own ConfigMap or Secret (configFiles[].configMap, .secret)", size)
	}
	field = map[string]string{"Service": "serviceAnnotations", "Ingress": "ingress.annotations", "HTTPRoute": "httpRoute.annotations"}[object.GetKind()]
	if size := sizeOf(object.GetAnnotations()); size > maxAnnotations {
		return tooLarge(c, field, annotationsHold, size)
	}
	if path, ok := podTemplates[object.GetKind()]; ok {
		annotations, _, _ := unstructured.NestedStringMap(object.Object, append(path[:len(path):len(path)], "metadata", "annotations")...)
		if size := sizeOf(annotations); size > maxAnnotations {
			return tooLarge(c, "annotations", annotationsHold, size)
		}
	}
	return nil
}

const annotationsHold = "the annotations of an object have %d bytes in all, but at most 256 KiB (262144) are allowed: shorten them"

func tooLarge(c *component.Component, field, limit string, size int) error {
	return render.FieldError(c.Path+"."+field, "too large: "+limit, size)
}

// sizeOf returns the size of annotations, names and values.
func sizeOf(annotations map[string]string) int {
	size := 0
	for name, text := range annotations {
		size += len(name) + len(text)
	}
	return size
}

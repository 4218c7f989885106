// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

// What the API server takes at most: of the data of a ConfigMap, and of an object's annotations.
const (
	maxData        = 1 << 20
	maxAnnotations = 256 << 10
)

// maxInput is how much the charts of all components are given at most. A spec is smaller than that,
// but what it says in one place for all (defaults, networkPolicy) counts for each component: with
// 200 of them 1 MB became 200, more than the operator may take.
const (
	maxInput     = 4 << 20
	tooMuchInput = "it is too large: its components get more than 4 MiB of fields in all; what defaults and networkPolicy say counts for each of them"
)

// checkSizes refuses what the API server would refuse for its size, before anything is written.
func checkSizes(c *component.Component, object *unstructured.Unstructured) error {
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	field := "config"
	if strings.HasSuffix(object.GetName(), "-files") {
		field = "configFiles"
	}
	if object.GetKind() == "ConfigMap" && sizeOf(data) > maxData {
		return tooLarge(c, field, "a ConfigMap holds 1 MiB")
	}
	field = map[string]string{"Service": "serviceAnnotations", "Ingress": "ingress.annotations"}[object.GetKind()]
	if sizeOf(object.GetAnnotations()) > maxAnnotations {
		return tooLarge(c, field, "annotations may have 256 KiB")
	}
	if path, ok := podTemplates[object.GetKind()]; ok {
		annotations, _, _ := unstructured.NestedStringMap(object.Object, append(path[:len(path):len(path)], "metadata", "annotations")...)
		if sizeOf(annotations) > maxAnnotations {
			return tooLarge(c, "annotations", "annotations may have 256 KiB")
		}
	}
	return nil
}

func tooLarge(c *component.Component, field, limit string) error {
	return &component.FieldError{Field: c.Path + "." + field, Message: fmt.Sprintf("it is too large: %s", limit)}
}

func sizeOf(texts map[string]string) int {
	size := 0
	for name, text := range texts {
		size += len(name) + len(text)
	}
	return size
}

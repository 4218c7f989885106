// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// hookAnnotation marks objects that Helm would run around an installation. This engine runs
// no hooks, so a chart that has one is refused rather than half carried out.
const hookAnnotation = "helm.sh/hook"

// parse reads the objects of one rendered file.
func (r *Renderer) parse(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(Escape(text))))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, err := r.canonical(document)
		if err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		if _, ok := object.GetAnnotations()[hookAnnotation]; ok {
			return nil, fmt.Errorf("%s %s is a Helm hook, which this engine does not run", object.GetKind(), object.GetName())
		}
		objects = append(objects, object)
	}
}

// Escape writes as \uXXXX what JSON has in quotes as it is, and YAML refuses or reads as a line
// break. In text made by charts, which quote by way of JSON, it stands in quotes only.
func Escape(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if unprintable(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// YAML writes an object as YAML, also one with characters that YAML reads in escaped form only.
func YAML(object *unstructured.Unstructured) ([]byte, error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML([]byte(Escape(string(data))))
}

func unprintable(r rune) bool {
	return r >= 0x7f && (r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff)
}

// canonical reads one document by way of its Go type, so that it looks as the API server
// would return it: quantities are normalised (1000m is 1), numbers are int64, unknown fields
// are an error. It returns nil for a document that holds only comments.
func (r *Renderer) canonical(document []byte) (*unstructured.Unstructured, error) {
	gvk, ok := kindOf(document)
	if !ok {
		return nil, nil
	}
	typed, err := r.types.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("the operator does not know %s: %w", gvk, err)
	}
	if err := yaml.UnmarshalStrict(document, typed); err != nil {
		return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// kindOf finds apiVersion and kind, which charts write at the start of lines, without parsing
// the document twice.
func kindOf(document []byte) (schema.GroupVersionKind, bool) {
	var apiVersion, kind string
	for line := range bytes.Lines(document) {
		if value, ok := bytes.CutPrefix(line, []byte("apiVersion:")); ok {
			apiVersion = string(bytes.TrimSpace(value))
		}
		if value, ok := bytes.CutPrefix(line, []byte("kind:")); ok {
			kind = string(bytes.TrimSpace(value))
		}
	}
	return schema.FromAPIVersionAndKind(apiVersion, kind), apiVersion != "" || kind != ""
}

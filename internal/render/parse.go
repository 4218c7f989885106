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

	"d3os.com/d3os-operator/internal/object"
)

// hookAnnotation marks hooks, which Helm would run before or after an installation. This engine runs no hooks, and refuses a chart with a
// hook.
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

// Escape writes as \uXXXX the characters that JSON accepts in quotes, but that YAML refuses or reads as line breaks. Charts quote texts as
// JSON, so these characters occur only in quotes.
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

// YAML encodes an object as YAML, and escapes the characters that YAML does not accept unescaped.
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

// canonical converts a document to its Go type and back. The result has the form of the API server's answers:
// quantities are normalised (1000m is 1), and numbers are int64. Unknown fields are an error. For a document with only
// comments, it returns nil.
func (r *Renderer) canonical(document []byte) (*unstructured.Unstructured, error) {
	gvk, ok := kindOf(document)
	if !ok {
		return nil, nil
	}
	typed, err := r.newObject(gvk)
	if err != nil {
		return nil, err
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

// newObject returns an empty object of a kind.
func (r *Renderer) newObject(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if object.IsUntyped(gvk) {
		return &unstructured.Unstructured{}, nil
	}
	typed, err := r.types.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("the operator does not know %s: %w", gvk, err)
	}
	return typed, nil
}

// kindOf finds apiVersion and kind without a second parse of the document: charts write both at the start of a line.
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

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/inject"
)

// FuzzRender checks that a text in a chart's values arrives unchanged in the chart's objects and in their YAML. The text is never read as
// a template or as YAML, even if YAML refuses one of its characters or reads the character as a line break.
func FuzzRender(f *testing.F) {
	for _, text := range []string{
		"{{ .Values }}", `{{ fail "x" }}`, "a\nkind: Secret", "---\na: b", "a\x00b", "\u202e", "\x7f", "\u0085", "\u009f", "\u2028", "\ufeff", "\uffff", `"`, `\`, "'", "$(A)", "${1}",
		"true", "1", "~", "", " a ", "\t", "a: b # c", "|", "!!binary a", "\r\n", "\U0001f600",
	} {
		f.Add(text)
	}
	r, err := render.New("v1.36.0")
	assert.NilError(f, err)
	of := func(text string) map[string]any {
		one := map[string]any{"A": inject.Neutral}
		v := inject.Set(map[string]any{
			"name": "own", "image": "registry.example.com/own:v1", "service": "", "kind": "Deployment", "port": int64(80), "replicas": int64(1),
			"env": one, "annotations": one, "labels": one, "serviceAnnotations": one, "serviceLabels": one, "nodeSelector": one, "config": one,
			"command": []any{inject.Neutral}, "args": []any{inject.Neutral}, "timeZone": inject.Neutral, "serviceAccountName": inject.Neutral,
			"configFiles":       []any{map[string]any{"path": "/a", "content": inject.Neutral}},
			"priorityClassName": inject.Neutral, "imagePullPolicy": "Always",
			"envs":        []any{map[string]any{"name": "B", "value": inject.Neutral}},
			"tolerations": []any{map[string]any{"key": inject.Neutral}},
			"ingress":     map[string]any{"host": inject.Neutral, "path": inject.Neutral, "className": inject.Neutral, "annotations": one},
		}, text)
		return v.(map[string]any)
	}
	release := render.Release{Name: "platform", Namespace: "data"}
	parts := func(text string) []render.Part {
		return []render.Part{{Name: "own", Chart: "microservice", Values: of(text)}}
	}
	neutral, err := r.Render(release, parts(inject.Neutral))
	assert.NilError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		// An empty text counts as not set, and package values refuses the other two sorts of texts.
		if text == "" || len(text) > 1<<12 || strings.Contains(text, inject.Neutral) {
			t.Skip("the text is empty, too long, or contains Neutral")
		}
		with, err := r.Render(release, parts(text))
		assert.NilError(t, err)
		again, err := r.Render(release, parts(text))
		assert.NilError(t, err)
		assert.Assert(t, reflect.DeepEqual(with, again), "the second rendering differs")
		assert.NilError(t, inject.Same(with[0], neutral[0], text))
		for _, object := range with[0] {
			printed, err := render.YAML(object)
			assert.NilError(t, err)
			read := &unstructured.Unstructured{}
			assert.NilError(t, utilyaml.Unmarshal(printed, &read.Object))
			assert.Assert(t, reflect.DeepEqual(read, object), "the object differs after it was printed and read")
		}
	})
}

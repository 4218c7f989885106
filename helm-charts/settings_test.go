// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	helmcharts "d3os.com/d3os-operator/helm-charts"
)

// formatted is a text with settings written into it in a format, as the library does it.
func formatted(t *testing.T, format, text string, settings map[string]any) string {
	t.Helper()
	library, err := loader.Load(helmcharts.Library)
	assert.NilError(t, err)
	const template = `{{ $file := dict "text" .Values.text }}{{ include (print "common.settings." .Values.format) (dict "file" $file "config" .Values.config) }}{{ $file.text }}`
	c := &helmchart.Chart{
		Metadata:  &helmchart.Metadata{APIVersion: helmchart.APIVersionV2, Name: "formats", Version: "1.0.0"},
		Templates: append(slices.Clone(library.Templates), &helmchart.File{Name: "templates/text", Data: []byte(template)}),
	}
	files, err := engine.Engine{Strict: true}.Render(c, chartutil.Values{"Values": map[string]any{"text": text, "format": format, "config": settings}})
	assert.NilError(t, err)
	return files["formats/templates/text"]
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format, text string
		settings     map[string]any
		want         string
	}{
		"a new key":               {"properties", "a=1\n", map[string]any{"b": "2", "c": ""}, "a=1\nb=2\nc=\n"},
		"in its place":            {"properties", "a=1\nb=2\nc=3\n", map[string]any{"b": "x"}, "a=1\nb=x\nc=3\n"},
		"a dot is a dot":          {"properties", "axb=1\na.b=2\n", map[string]any{"a.b": "x"}, "axb=1\na.b=x\n"},
		"no other key":            {"properties", "#a=1\naa=1\na.a=1\n", map[string]any{"a": "x"}, "#a=1\naa=1\na.a=1\na=x\n"},
		"not a reference":         {"properties", "a=1\n", map[string]any{"a": "$0 ${0} $1"}, "a=$0 ${0} $1\n"},
		"in the order of names":   {"properties", "", map[string]any{"a b": "1", "a-b": "2", "a:b": "3"}, "a\\ b=1\na-b=2\na\\:b=3\n"},
		"with blanks":             {"properties", " a : 1\nb = 2\n", map[string]any{"a": "x", "b": "y"}, "a=x\nb=y\n"},
		"nested":                  {"yaml", "a: {b: 1, c: 2}\n", map[string]any{"a.b": "x"}, "a:\n  b: x\n  c: 2\n"},
		"what stands in its way":  {"yaml", "a: 1\nb: [1]\n", map[string]any{"a.b": "x", "b.c": "y"}, "a:\n  b: x\nb:\n  c: \"y\"\n"},
		"a whole part":            {"yaml", "a: {b: 1}\n", map[string]any{"a": "x"}, "a: x\n"},
		"a key with dots":         {"yaml", "a.b: 1\na.c: 2\n", map[string]any{"a.b": "x"}, "a:\n  b: x\na.c: 2\n"},
		"nothing there":           {"yaml", "a:\n", map[string]any{"a.b": "x"}, "a:\n  b: x\n"},
		"a string":                {"yaml", "a: 1\nlong: 1800000\n", map[string]any{"a": "true"}, "a: \"true\"\nlong: 1800000\n"},
		"several":                 {"yaml", "{}", map[string]any{"a.b": "1", "a.c.d": "x"}, "a:\n  b: \"1\"\n  c:\n    d: x\n"},
		"a name that is a number": {"javascript", "", map[string]any{"1": "2"}, "Object.assign(window.HAIER_APP_CONFIG, {\"1\": 2});\n"},
		"every character": {"properties", "", map[string]any{"key with = : blank": "  two", "#hash": "\tone\r\n", `back\slash`: `C:\new`, "emoji": "您😀"},
			`\#hash=\tone\r\n` + "\n" + `back\\slash=C:\\new` + "\n" + `emoji=\u60a8\ud83d\ude00` + "\n" + `key\ with\ \=\ \:\ blank=\  two` + "\n"},
		"text in a script": {"javascript", "", map[string]any{"A": "a'b\"\n</script>", "B": "true", "C": "-1.50", "D": "007", "E": "1e3", "F": "null"},
			`Object.assign(window.HAIER_APP_CONFIG, {"A": "a'b\"\n\u003c/script\u003e", "B": true, "C": -1.50, "D": "007", "E": "1e3", "F": "null"});` + "\n"},
		"options": {"mysqld", "[client]\n", map[string]any{"b": "1 # 2", "a": ""}, "[client]\n\n[mysqld]\na\nb = 1 # 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, formatted(t, test.format, test.text, test.settings), test.want)
		})
	}
}

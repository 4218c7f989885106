// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

func TestSettingsOfMySQL(t *testing.T) {
	t.Parallel()
	read := func(values string) string {
		return at(made(t, component.ChartMySQL, values)["ConfigMap/mysql-dataservice"], "data", "my.cnf").(string)
	}
	added, ok := strings.CutPrefix(read("{config: {sql_mode: 'A,B', max_connections: '9', skip-external-locking: ''}}"), read("{}"))
	assert.Assert(t, ok)
	assert.Equal(t, added, "\n[mysqld]\nmax_connections = 9\nskip-external-locking\nsql_mode = A,B\n")
	for _, lines := range []string{`{config: {a: "b\nc"}}`, `{config: {a: "b\r"}}`, `{config: {"a\nb": c}}`} {
		assert.Assert(t, schemaErrors(t, component.ChartMySQL, parsed(t, lines)) != nil, lines)
		assert.Assert(t, strings.Contains(refused(t, component.ChartMySQL, lines), "must be one line"), lines)
	}
}

// Files arrive as they are, at their paths, with one volume for each object that has some.
func TestConfigFiles(t *testing.T) {
	t.Parallel()
	contents := map[string]string{
		"/a": "", "/config/b": "no newline", "/config/c.xml": "  <leading blanks/>\n\n", "/d": "\ttab\r\n\x7f\u0085\ufeff\u2028😀您好\x01", "/e": "{{ .Values }}\n---\nkind: Secret\n@port@", "/x..y": "\ufeffmark",
	}
	for chart, base := range anywhere {
		v := parsed(t, base+"}")
		files := []any{
			map[string]any{"path": "/s/one.crt", "secret": "certs"}, map[string]any{"path": "/s/two.crt", "secret": "certs", "key": "second"}, map[string]any{"path": "/s/three", "configMap": "certs", "content": nil},
		}
		for path, content := range contents {
			files = append(files, map[string]any{"path": path, "content": content})
		}
		v["configFiles"] = files
		found := objects{}
		for _, object := range rendered(t, chart, v) {
			found[object.GetKind()+"/"+object.GetName()] = object.Object
		}
		spec := found.pod(t)["spec"]
		mounts := map[string]map[string]any{}
		for _, mount := range items(found.container(t)["volumeMounts"]) {
			mounts[mount["mountPath"].(string)] = mount
		}
		for path, content := range contents {
			volume := named(at(spec, "volumes"), mounts[path]["name"].(string))
			held := found["ConfigMap/"+at(volume, "configMap", "name").(string)]
			assert.Equal(t, at(held, "data", mounts[path]["subPath"].(string)), content, "%s: %s", chart, path)
			assert.Equal(t, mounts[path]["readOnly"], true)
			assert.Equal(t, mounts[path]["subPath"], strings.ReplaceAll(path[1:], "/", ".."))
		}
		for path, want := range map[string][3]string{"/s/one.crt": {"secret", "secretName", "one.crt"}, "/s/two.crt": {"secret", "secretName", "second"}, "/s/three": {"configMap", "name", "three"}} {
			volume := named(at(spec, "volumes"), mounts[path]["name"].(string))
			assert.Equal(t, at(volume, want[0], want[1]), "certs", path)
			assert.Equal(t, mounts[path]["subPath"], want[2])
		}
		assert.Equal(t, mounts["/s/one.crt"]["name"], mounts["/s/two.crt"]["name"])
		assert.Assert(t, mounts["/s/one.crt"]["name"] != mounts["/s/three"]["name"])
	}
}

// A file of the user's takes the place of the product's, but not of one that config writes to.
func TestConfigFilesReplaceTheProducts(t *testing.T) {
	t.Parallel()
	const conf, script = "/etc/nginx/templates/default.conf.template", "/usr/share/nginx/html/app.config.js"
	found := made(t, component.ChartMicroservice, "{service: web, config: {A: b}, configFiles: [{path: "+conf+", content: mine}]}")
	assert.DeepEqual(t, slices.Sorted(maps.Keys(found)), []string{"ConfigMap/web", "ConfigMap/web-files", "Deployment/web", "Service/web"})
	assert.Assert(t, named(found.container(t)["volumeMounts"], "config-template") == nil)
	assert.Assert(t, named(at(found.pod(t), "spec", "volumes"), "config-template") == nil)
	found = made(t, component.ChartMicroservice, "{service: web, configFiles: [{path: "+conf+", secret: a}, {path: "+script+", secret: a}]}")
	assert.DeepEqual(t, slices.Sorted(maps.Keys(found)), []string{"Deployment/web", "Service/web"})
	for chart, values := range map[string]string{
		component.ChartMicroservice: "{service: web, config: {A: b}, configFiles: [{path: " + script + ", content: mine}]}",
		component.ChartMySQL:        "{config: {A: b}, configFiles: [{path: /etc/mysql/conf.d/my.cnf, content: mine}]}",
		component.ChartCronJob:      job + "config: {A: b}, configFiles: [{path: /config/application.properties, secret: mine}]}",
	} {
		message := refused(t, chart, values)
		assert.Assert(t, strings.Contains(message, "configFiles replaces /") && strings.Contains(message, "config sets values"), message)
	}
	made(t, component.ChartCronJob, job+"configFiles: [{path: /config/application.properties, secret: mine}]}")
}

// A file can be put into mysqld's folder of options, which is a volume otherwise.
func TestOptionFilesOfMySQL(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		"{}": {"/etc/mysql/conf.d"},
		"{configFiles: [{path: /etc/mysql/other.cnf, content: a}]}":    {"/etc/mysql/conf.d", "/etc/mysql/other.cnf"},
		"{configFiles: [{path: /etc/mysql/conf.d/z.cnf, content: a}]}": {"/etc/mysql/conf.d/my.cnf", "/etc/mysql/conf.d/z.cnf"},
		"{configFiles: [{path: /etc/mysql/conf.d/my.cnf, secret: a}]}": {"/etc/mysql/conf.d/my.cnf"},
	} {
		var got []string
		for _, mount := range items(made(t, component.ChartMySQL, values).container(t)["volumeMounts"]) {
			if path := mount["mountPath"].(string); strings.HasPrefix(path, "/etc/") {
				got = append(got, path)
			}
		}
		assert.DeepEqual(t, got, want)
	}
}

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

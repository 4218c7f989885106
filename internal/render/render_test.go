// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const kubeVersion = "v1.36.0"

var release = Release{Name: "platform", Namespace: "data"}

// withChart returns a Renderer of one chart, which is named small and has one template.
func withChart(t *testing.T, template string) *Renderer {
	t.Helper()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	small, err := NewFrom(fstest.MapFS{
		"small/Chart.yaml":         {Data: []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n")},
		"small/templates/all.yaml": {Data: []byte(template)},
	}, kubeVersion, r.types)
	assert.NilError(t, err)
	return small
}

func renderOne(r *Renderer, chartName string, values map[string]any) ([]*unstructured.Unstructured, error) {
	rendered, err := r.Render(release, []Part{{Name: "part", Chart: chartName, Values: values}})
	if err != nil {
		return nil, err
	}
	return rendered[0], nil
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ template, want string }{
		"a hook":           {configMap + "  annotations: {helm.sh/hook: pre-install}\n", "ConfigMap a is a Helm hook, which this engine does not run"},
		"a test hook":      {configMap + "  annotations: {helm.sh/hook: test}\n", "ConfigMap a is a Helm hook"},
		"an unknown field": {configMap + "content: {}\n", `ConfigMap: error unmarshaling JSON: while decoding JSON: json: unknown field "content"`},
		"an unknown field deep inside": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, imagePullPolice: Always}]}}}\n",
			`Deployment: error unmarshaling JSON: while decoding JSON: json: unknown field "imagePullPolice"`,
		},
		"a repeated field":        {configMap + "data: {a: b}\ndata: {c: d}\n", `key "data" already set in map`},
		"an unknown kind":         {"apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}\n", "the operator does not know /v1, Kind=Nonsense"},
		"no kind":                 {"apiVersion: v1\nmetadata: {name: a}\n", "the operator does not know /v1, Kind="},
		"invalid YAML":            {configMap + "data: [\n", "parse templates/all.yaml of chart small"},
		"a missing value":         {configMap + "data: {a: {{ .Values.missing.deeper }}}\n", `map has no entry for key "missing"`},
		"a value that is not set": {configMap + "data: {a: {{ .Values.missing }}}\n", `map has no entry for key "missing"`},
		"a wrong type":            {configMap + "data: [a]\n", "cannot unmarshal array"},
		"a broken template":       {"{{ if }}", "missing value for if"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := renderOne(withChart(t, test.template), "small", map[string]any{})
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestRenderReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template string
		want     []string
	}{
		"nothing":           {"", nil},
		"comments":          {"# nothing\n---\n# to see\n", nil},
		"several":           {"---\n" + configMap + "---\n# comment\n" + configMap + "---\n\n---\n", []string{"ConfigMap/a", "ConfigMap/a"}},
		"an omitted object": {"{{ if .Values.more }}" + configMap + "{{ end }}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := renderOne(withChart(t, test.template), "small", map[string]any{"more": false})
			assert.NilError(t, err)
			var got []string
			for _, object := range objects {
				got = append(got, object.GetKind()+"/"+object.GetName())
			}
			assert.DeepEqual(t, got, test.want)
		})
	}
}

// Rendered objects have the form of the API server's answers: quantities are normalised, and the status is missing.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	objects, err := renderOne(withChart(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2.0
  template:
    spec:
      containers:
      - name: a
        env: [{name: A, value: ""}]
        resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5, memory: 1e3}}
status: {replicas: 5}
`), "small", nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, objects[0].Object, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"replicas": int64(2), "selector": nil, "strategy": map[string]any{},
			"template": map[string]any{
				"metadata": map[string]any{},
				"spec": map[string]any{"containers": []any{map[string]any{
					"name": "a", "env": []any{map[string]any{"name": "A"}},
					"resources": map[string]any{
						"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "500m", "memory": "1k"},
					},
				}}},
			},
		},
	})
}

// Several parts in one rendering give the same objects as separate renderings, in the order of the request.
func TestPartsDoNotMix(t *testing.T) {
	t.Parallel()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	var parts []Part
	for i, chartName := range []string{"eureka", "mysql", "eureka", "third-party", "microservice", "eureka"} {
		parts = append(parts, Part{Name: fmt.Sprintf("part-%d", i), Chart: chartName, Values: map[string]any{
			"name": fmt.Sprintf("name-%d", i), "component": fmt.Sprintf("c-%d", i), "url": "http://a.example.com", "image": fmt.Sprintf("image-%d", i), "port": int64(1000 + i),
			"podAnnotations": map[string]any{fmt.Sprintf("only-%d", i): "x"},
		}})
	}
	together, err := r.Render(release, parts)
	assert.NilError(t, err)
	for i, part := range parts {
		alone, err := r.Render(release, []Part{part})
		assert.NilError(t, err)
		assert.DeepEqual(t, together[i], alone[0])
		for _, object := range together[i] {
			assert.Assert(t, strings.Contains(object.GetName(), fmt.Sprintf("name-%d", i)), object.GetName())
		}
	}
}

// Concurrent renderings are safe: they do not write to shared values.
func TestRenderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	render := func(size string) ([]*unstructured.Unstructured, error) {
		return renderOne(r, "mysql", map[string]any{"name": "a", "storage": map[string]any{"size": size}})
	}
	want, err := render("1Gi")
	assert.NilError(t, err)
	results := make([][]*unstructured.Unstructured, 16)
	failures := make([]error, len(results))
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i], failures[i] = render([]string{"1Gi", "2Gi"}[i%2]) })
	}
	group.Wait()
	other, err := render("2Gi")
	assert.NilError(t, err)
	for i := range results {
		assert.NilError(t, failures[i])
		assert.DeepEqual(t, results[i], [][]*unstructured.Unstructured{want, other}[i%2])
	}
	again, err := render("1Gi")
	assert.NilError(t, err)
	assert.DeepEqual(t, again, want)
}

// A null in the values of one component removes the default only for that component.
func TestNullIsForOneRender(t *testing.T) {
	t.Parallel()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	want, err := renderOne(r, "eureka", nil)
	assert.NilError(t, err)
	without, err := renderOne(r, "eureka", map[string]any{"probes": map[string]any{"liveness": nil}, "podSecurityContext": map[string]any{"fsGroup": nil}, "replicas": nil})
	assert.NilError(t, err)
	assert.Assert(t, !reflect.DeepEqual(without, want))
	again, err := renderOne(r, "eureka", nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, again, want)
}

func TestNoParts(t *testing.T) {
	t.Parallel()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	rendered, err := r.Render(release, nil)
	assert.NilError(t, err)
	assert.Equal(t, len(rendered), 0)
}

func TestUnknownChart(t *testing.T) {
	t.Parallel()
	r, err := New(kubeVersion)
	assert.NilError(t, err)
	_, err = renderOne(r, "oracle", nil)
	assert.ErrorContains(t, err, `there is no chart "oracle"`)
	_, err = renderOne(r, "common", nil)
	assert.ErrorContains(t, err, `there is no chart "common"`)
}

func TestKubernetesVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"":              `parse the cluster's version ""`,
		"latest":        `parse the cluster's version "latest"`,
		"v1.16.0":       "the cluster has v1.16.0",
		"v1.36.0":       "",
		"v1.99.0":       "",
		"v1.33.4+k3s1":  "",
		"v1.34.1-gke.1": "",
	} {
		_, err := New(version)
		if want == "" {
			assert.NilError(t, err, version)
			continue
		}
		assert.ErrorContains(t, err, want)
	}
}

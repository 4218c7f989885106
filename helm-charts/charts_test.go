// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/preview"
	"d3os.com/d3os-operator/internal/render"
)

const (
	kubeVersion = "v1.36.0"
	releaseName = "release"
	namespace   = "data"
)

// charts are the folders of all charts but the library.
func charts(t *testing.T) []string {
	t.Helper()
	entries, err := fs.ReadDir(helmcharts.FS, ".")
	assert.NilError(t, err)
	var names []string
	for _, entry := range entries {
		if entry.Name() != helmcharts.Library {
			names = append(names, entry.Name())
		}
	}
	assert.DeepEqual(t, names, []string{component.ChartCronJob, component.ChartEureka, component.ChartMicroservice, component.ChartMySQL, component.ChartThirdParty})
	return names
}

// ciFiles are the values that the charts are tried with: file to chart.
func ciFiles(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, chart := range charts(t) {
		files, err := filepath.Glob(filepath.Join(chart, "ci", "*-values.yaml"))
		assert.NilError(t, err)
		assert.Assert(t, len(files) > 0, "chart %s has no values to try", chart)
		for _, file := range files {
			found[file] = chart
		}
	}
	return found
}

// helm runs the real thing: $HELM, or the one that the Makefile builds.
func helm(t *testing.T, arguments ...string) []byte {
	t.Helper()
	binary := os.Getenv("HELM")
	if binary == "" {
		binary = "../bin/tools/helm"
	}
	command := exec.CommandContext(t.Context(), binary, arguments...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	assert.NilError(t, err, "helm %s (set HELM, or run make bin/tools/helm):\n%s%s", strings.Join(arguments, " "), out, &stderr)
	return out
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	v := map[string]any{}
	assert.NilError(t, yaml.Unmarshal(data, &v))
	return v
}

func rendered(t *testing.T, chart string, v map[string]any) []*unstructured.Unstructured {
	t.Helper()
	renderer, err := render.New(kubeVersion)
	assert.NilError(t, err)
	objects, err := renderer.Render(render.Release{Name: releaseName, Namespace: namespace}, []render.Part{{Name: "part", Chart: chart, Values: v}})
	assert.NilError(t, err)
	return objects[0]
}

// The charts are Helm's: plain Helm makes of them what the operator does.
func TestHelmRendersTheSame(t *testing.T) {
	t.Parallel()
	for file, chart := range ciFiles(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text := helm(t, "template", releaseName, chart, "--namespace", namespace, "--kube-version", kubeVersion, "--values", file)
			want := map[string]map[string]any{}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				if obj := canonical(t, document+"\n"); obj != nil {
					want[id(obj)] = obj.Object
				}
			}
			got := map[string]map[string]any{}
			for _, obj := range rendered(t, chart, readValues(t, file)) {
				got[id(obj)] = obj.Object
			}
			assert.Assert(t, len(want) > 0)
			assert.DeepEqual(t, got, want)
		})
	}
}

func id(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// canonical reads a document by way of its Go type; nil for one without an object.
func canonical(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	assert.NilError(t, yaml.Unmarshal([]byte(document), &content), "%s", document)
	if content == nil {
		return nil
	}
	typed, err := scheme.Scheme.New((&unstructured.Unstructured{Object: content}).GroupVersionKind())
	assert.NilError(t, err)
	assert.NilError(t, yaml.UnmarshalStrict([]byte(document), typed), "%s", document)
	content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	assert.NilError(t, err)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

func TestHelmLint(t *testing.T) {
	t.Parallel()
	helm(t, "lint", "--strict", helmcharts.Library)
	for _, chart := range charts(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			helm(t, "lint", "--strict", chart)
		})
	}
	for file, chart := range ciFiles(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			helm(t, "lint", "--strict", chart, "--values", file)
		})
	}
}

// What a chart renders, the operator watches, may write, and prunes.
func TestEveryRenderedKindIsKnown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for file, chart := range ciFiles(t) {
		for _, obj := range rendered(t, chart, readValues(t, file)) {
			assert.Assert(t, slices.Contains(object.Kinds, obj.GroupVersionKind()), "%s renders a %s", file, obj.GetKind())
			seen[obj.GetKind()] = true
		}
	}
	for _, gvk := range object.Kinds {
		assert.Assert(t, seen[gvk.Kind] || gvk.Kind == "Secret", "no chart renders a %s", gvk.Kind)
	}
}

func TestChartsRenderTheSameTwice(t *testing.T) {
	t.Parallel()
	for file, chart := range ciFiles(t) {
		assert.DeepEqual(t, rendered(t, chart, readValues(t, file)), rendered(t, chart, readValues(t, file)))
	}
}

// schemaErrors checks values, with the chart's own below them, against values.schema.json.
func schemaErrors(t *testing.T, chartName string, v map[string]any) error {
	t.Helper()
	c, err := loader.Load(chartName)
	assert.NilError(t, err)
	assert.Assert(t, len(c.Schema) > 0, "%s has no schema", chartName)
	all, err := chartutil.CoalesceValues(c, v)
	assert.NilError(t, err)
	return chartutil.ValidateAgainstSchema(c, all)
}

// The operator does not check values while it runs: what it passes is what the schema allows.
func TestTheOperatorsValuesFitTheSchemas(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../internal/preview/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../config/samples/d3os-product.com_v1_dataservice.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			assert.NilError(t, err)
			ds, err := preview.Parse(data)
			assert.NilError(t, err)
			graph, err := component.NewGraph(&ds.Spec)
			assert.NilError(t, err)
			nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
			secrets, err := credentials.NewPreview().Plan(ds, graph, nothing)
			assert.NilError(t, err)
			in := values.Input{
				Instance: ds.Name, Namespace: namespace, Graph: graph, Credentials: secrets.Credentials,
				Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
			}
			for i := range graph.Components {
				c := &graph.Components[i]
				v, err := values.Build(in, c)
				assert.NilError(t, err)
				assert.NilError(t, schemaErrors(t, c.Chart, v), "%s", c.Name)
			}
		})
	}
}

// The schemas do refuse something: a misspelt value in any chart, at the top or below.
func TestTheSchemasRefuseUnknownValues(t *testing.T) {
	t.Parallel()
	valid := map[string]map[string]any{
		component.ChartEureka: {}, component.ChartMySQL: {}, component.ChartMicroservice: {"service": "web"}, component.ChartThirdParty: {"url": "http://a"},
		component.ChartCronJob: {"image": "a", "schedule": "@daily"},
	}
	for _, chart := range charts(t) {
		v := valid[chart]
		assert.NilError(t, schemaErrors(t, chart, v), chart)
		for key, value := range map[string]any{"replica": int64(1), "kind": "Job", "port": int64(70000), "nodePort": "many", "env": map[string]any{"A": int64(1)},
			"podAnnotations": map[string]any{}, "size": "huge", "labels": "none", "config": map[string]any{"a": int64(1)},
			"configFiles": []any{map[string]any{"path": "/a", "content": "", "secret": "b"}}} {
			bad := map[string]any{key: value}
			for k, x := range v {
				bad[k] = x
			}
			assert.Assert(t, schemaErrors(t, chart, bad) != nil, "%s takes %s: %v", chart, key, value)
		}
	}
}

// Each folder has what a chart needs, and all of it is in the binary.
func TestChartsAreEmbedded(t *testing.T) {
	t.Parallel()
	for _, chart := range append(charts(t), helmcharts.Library) {
		err := filepath.WalkDir(chart, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			want, err := os.ReadFile(file)
			assert.NilError(t, err)
			got, err := fs.ReadFile(helmcharts.FS, file)
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(got, want), file)
			return nil
		})
		assert.NilError(t, err)
	}
}

// forbidden finds functions that are not deterministic, that ask the world, or that read text
// as a template.
var forbidden = regexp.MustCompile(`(\{\{-?|[(|=]|\bif\b|\bwith\b|\brange\b)\s*(lookup|now|uuidv4|rand\w+|gen[A-Z]\w+|htpasswd|bcrypt|derivePassword|tpl|getHostByName|env|expandenv)\b|helm\.sh/hook`)

func TestTemplatesUseNothingForbidden(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{ now }}", "{{- tpl .a . }}", "{{ $a := lookup }}", "(randAlphaNum 8)", "x | tpl .", "{{ if env }}", "helm.sh/hook: test"} {
		assert.Assert(t, forbidden.MatchString(text), text)
	}
	templates := 0
	for _, chart := range append(charts(t), helmcharts.Library) {
		err := fs.WalkDir(helmcharts.FS, chart+"/templates", func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			templates++
			text, err := fs.ReadFile(helmcharts.FS, file)
			assert.NilError(t, err)
			assert.Equal(t, string(forbidden.Find(text)), "", file)
			return nil
		})
		assert.NilError(t, err)
	}
	assert.Assert(t, templates >= 16, "%d templates", templates)
}

// podOf is the pod template of an object, if it has one.
func podOf(t *testing.T, obj *unstructured.Unstructured) map[string]any {
	t.Helper()
	path := []string{"spec", "template"}
	if obj.GetKind() == "CronJob" {
		path = []string{"spec", "jobTemplate", "spec", "template"}
	}
	pod, _, err := unstructured.NestedMap(obj.Object, path...)
	assert.NilError(t, err)
	return pod
}

// items is a list of maps.
func items(list any) []map[string]any {
	var found []map[string]any
	values, _ := list.([]any)
	for _, value := range values {
		found = append(found, value.(map[string]any))
	}
	return found
}

// Pods pass Pod Security "restricted" as the charts ship them, whatever runs in them besides.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	pods, inits, others := 0, 0, 0
	for file, chart := range ciFiles(t) {
		v := readValues(t, file)
		delete(v, "podSecurityContext")
		delete(v, "securityContext")
		for _, obj := range rendered(t, chart, v) {
			template := podOf(t, obj)
			if template == nil {
				continue
			}
			pods++
			pod := template["spec"].(map[string]any)
			for _, forbidden := range []string{"hostNetwork", "hostPID", "hostIPC"} {
				assert.Assert(t, pod[forbidden] == nil, "%s: %s", file, forbidden)
			}
			assert.Equal(t, pod["serviceAccountName"], v["serviceAccountName"], file)
			assert.Equal(t, pod["automountServiceAccountToken"], false, file)
			security := pod["securityContext"].(map[string]any)
			assert.Equal(t, security["runAsNonRoot"], true, file)
			assert.DeepEqual(t, security["seccompProfile"], map[string]any{"type": "RuntimeDefault"})
			containers := items(pod["containers"])
			others += len(containers) - 1
			assert.Assert(t, containers[0]["resources"] != nil, file)
			inits += len(items(pod["initContainers"]))
			for _, container := range append(containers, items(pod["initContainers"])...) {
				security = container["securityContext"].(map[string]any)
				assert.Equal(t, security["allowPrivilegeEscalation"], false, file)
				assert.DeepEqual(t, security["capabilities"], map[string]any{"drop": []any{"ALL"}})
			}
			for _, volume := range items(pod["volumes"]) {
				assert.Assert(t, volume["hostPath"] == nil, file)
			}
		}
	}
	assert.Assert(t, pods >= len(ciFiles(t)))
	assert.Assert(t, inits > 0 && others > 0, "nothing runs besides")
}

// The example values use every value of every chart: nothing is left untried.
func TestEveryValueIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for file, chart := range ciFiles(t) {
		for name := range readValues(t, file) {
			tried[chart+"/"+name] = true
		}
	}
	for _, chart := range charts(t) {
		for name := range readValues(t, filepath.Join(chart, "values.yaml")) {
			assert.Assert(t, tried[chart+"/"+name], "no values of %s have %s", chart, name)
		}
	}
}

// What values.yaml lists is what the schema allows, and the templates never find a value missing.
func TestValuesAndSchemaListTheSame(t *testing.T) {
	t.Parallel()
	for _, chart := range charts(t) {
		data, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
		assert.NilError(t, err)
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		assert.NilError(t, yaml.Unmarshal(data, &schema))
		delete(schema.Properties, "global")
		delete(schema.Properties, helmcharts.Library)
		allowed := slices.Sorted(maps.Keys(schema.Properties))
		assert.DeepEqual(t, slices.Sorted(maps.Keys(readValues(t, filepath.Join(chart, "values.yaml")))), allowed)
	}
}

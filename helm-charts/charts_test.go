// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

const (
	kubeVersion = "v1.36.0"
	releaseName = "release"
	namespace   = "data"
)

// charts returns the folders of all charts except the library, and fails the test if a folder is missing or unknown.
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
	assert.DeepEqual(t, names, []string{component.ChartCronJob, component.ChartEtcd, "etcdcluster", component.ChartEureka, component.ChartMicroservice, component.ChartMongoDB, component.ChartMySQL, "mysqlcluster", component.ChartReplicated, component.ChartRedis, "rediscluster", component.ChartThirdParty})
	return names
}

// ciFiles maps each file with test values to its chart.
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

// helm runs the real program: $HELM, or the build of the Makefile.
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
	assert.NilError(t, err, "helm %s (set HELM, or run make test-tools):\n%s%s", strings.Join(arguments, " "), out, &stderr)
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

// Plain Helm renders the same objects from the charts as the operator.
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

// canonical converts a document to its Go type and back; nil for a document without an object.
func canonical(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	assert.NilError(t, yaml.Unmarshal([]byte(document), &content), "%s", document)
	if content == nil {
		return nil
	}
	types := runtime.NewScheme()
	assert.NilError(t, scheme.AddToScheme(types))
	assert.NilError(t, redisv1.AddToScheme(types))
	assert.NilError(t, etcdv1.AddToScheme(types))
	assert.NilError(t, mysqlv1.AddToScheme(types))
	gvk := (&unstructured.Unstructured{Object: content}).GroupVersionKind()
	if object.IsUntyped(gvk) {
		foreign := &unstructured.Unstructured{}
		data, err := yaml.YAMLToJSON([]byte(document))
		assert.NilError(t, err)
		assert.NilError(t, foreign.UnmarshalJSON(data))
		return foreign
	}
	typed, err := types.New(gvk)
	assert.NilError(t, err)
	assert.NilError(t, yaml.UnmarshalStrict([]byte(document), typed), "%s", document)
	content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	assert.NilError(t, err)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

// Helm lints each chart with the values in everything-values.yaml. TestHelmRendersTheSame covers all files with values.
func TestHelmLint(t *testing.T) {
	t.Parallel()
	helm(t, "lint", "--strict", helmcharts.Library)
	for file, chart := range ciFiles(t) {
		if strings.HasSuffix(file, "everything-values.yaml") {
			t.Run(chart, func(t *testing.T) {
				t.Parallel()
				helm(t, "lint", "--strict", chart, "--values", file)
			})
		}
	}
}

// The operator watches, may write, and prunes all kinds of objects that a chart renders.
func TestEveryRenderedKindIsKnown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for file, chart := range ciFiles(t) {
		for _, obj := range rendered(t, chart, readValues(t, file)) {
			assert.Assert(t, slices.Contains(slices.Concat(object.Kinds, object.Optional), obj.GroupVersionKind()), "%s renders a %s", file, obj.GetKind())
			seen[obj.GetKind()] = true
		}
	}
	for _, gvk := range object.Kinds {
		assert.Assert(t, seen[gvk.Kind] || gvk.Kind == "Secret", "no chart renders a %s", gvk.Kind)
	}
}

// forbidden finds functions that are not deterministic, that read data from outside of the chart, or that evaluate text as a template.
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

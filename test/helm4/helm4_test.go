// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm4_test compares Helm 4 with Helm 3, which the operator uses: the texts that charts render are equal byte for byte, through
// internal/render and in plain Helm. engine_test.go is a copy of internal/render/helm.go that uses Helm 4.
// docs/develop/internals/decisions.md lists the steps of the switch to Helm 4.
package helm4_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/render"
)

const kubeVersion = "v1.36.0"

var release = render.Release{Name: "release", Namespace: "data"}

// valuesFiles maps each chart to the files in its folder ci. A chart without one fails the test.
func valuesFiles(t *testing.T) map[string][]string {
	t.Helper()
	charts, err := fs.ReadDir(helmcharts.FS, ".")
	assert.NilError(t, err)
	found := map[string][]string{}
	for _, chart := range charts {
		if chart.Name() == helmcharts.Library {
			continue
		}
		files, err := fs.Glob(helmcharts.FS, chart.Name()+"/ci/*")
		assert.NilError(t, err)
		assert.Assert(t, len(files) > 0, "chart %s has no values in ci/", chart.Name())
		found[chart.Name()] = files
	}
	assert.Assert(t, len(found) > 0)
	return found
}

// engines returns a render.Engine of Helm 3 and one of Helm 4, with the operator's charts.
func engines(t *testing.T) (three, four render.Engine) {
	t.Helper()
	three, err := render.Helm3(helmcharts.FS, kubeVersion)
	assert.NilError(t, err)
	four, err = helm4(helmcharts.FS, kubeVersion)
	assert.NilError(t, err)
	return three, four
}

// parts returns a part for each values file, with the types of numbers that the operator's values have.
func parts(t *testing.T) []render.Part {
	t.Helper()
	var all []render.Part
	for chart, files := range valuesFiles(t) {
		for _, file := range files {
			data, err := fs.ReadFile(helmcharts.FS, file)
			assert.NilError(t, err)
			data, err = yaml.YAMLToJSON(data)
			assert.NilError(t, err)
			part := render.Part{Name: chart + "-" + strings.TrimSuffix(path.Base(file), ".yaml"), Chart: chart}
			assert.NilError(t, json.Unmarshal(data, &part.Values), file)
			all = append(all, part)
		}
	}
	slices.SortFunc(all, func(a, b render.Part) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// One run renders all values of all charts, as one run of the operator renders all components of a platform.
func TestTheOperatorsTextsAreEqual(t *testing.T) {
	t.Parallel()
	three, four := engines(t)
	want, err := three(release, parts(t))
	assert.NilError(t, err)
	got, err := four(release, parts(t))
	assert.NilError(t, err)
	assert.Equal(t, len(got), len(want))
	for i, part := range parts(t) {
		assert.Assert(t, len(want[i]) > 0 && want[i][0].Text != "", part.Name)
		assert.DeepEqual(t, got[i], want[i])
	}
	assert.DeepEqual(t, objects(t, four), objects(t, three))
}

// objects returns the objects of all values of all charts.
func objects(t *testing.T, engine render.Engine) [][]*unstructured.Unstructured {
	t.Helper()
	renderer, err := render.NewWith(engine)
	assert.NilError(t, err)
	rendered, err := renderer.Render(release, parts(t))
	assert.NilError(t, err)
	return rendered
}

// Plain Helm reads a chart from its folder, with the library behind a symbolic link, and checks the values against the schema. At the end
// of an object, Helm 3 removes white space, and Helm 4 keeps it.
func TestTheTextsOfPlainHelmAreEqual(t *testing.T) {
	t.Parallel()
	charts := map[string][]string{"dist/chart": {"dist/chart/values.yaml"}}
	for chart, files := range valuesFiles(t) {
		for _, file := range files {
			charts["helm-charts/"+chart] = append(charts["helm-charts/"+chart], "helm-charts/"+file)
		}
	}
	for chart, files := range charts {
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				want, got := plain3(t, "../../"+chart, "../../"+file), plain4(t, "../../"+chart, "../../"+file)
				assert.DeepEqual(t, slices.Sorted(maps.Keys(got.files)), slices.Sorted(maps.Keys(want.files)))
				for name := range want.files {
					assert.Equal(t, got.files[name], want.files[name], name)
				}
				assert.Assert(t, len(want.manifests) > 0)
				assert.Assert(t, !reflect.DeepEqual(got.manifests, want.manifests), "Helm 4 trims, too")
				for i, m := range got.manifests {
					assert.Assert(t, strings.Contains(got.files[m.path], m.text), m.path)
					got.manifests[i].text = strings.TrimSpace(m.text)
				}
				assert.DeepEqual(t, got.manifests, want.manifests, cmp.AllowUnexported(manifest{}))
				assert.Equal(t, want.hooks+want.crds+got.hooks+got.crds, 0)
			})
		}
	}
}

// of returns a render.Engine of Helm 3 and one of Helm 4. Both have only the chart small, which has one template.
func of(t *testing.T, template, kubeVersion string) (three, four render.Engine) {
	t.Helper()
	files := fstest.MapFS{
		"small/Chart.yaml":         {Data: []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n")},
		"small/templates/all.yaml": {Data: []byte(template)},
	}
	three, err := render.Helm3(files, kubeVersion)
	assert.NilError(t, err)
	four, err = helm4(files, kubeVersion)
	assert.NilError(t, err)
	return three, four
}

// Errors name the cluster's version. Charts are checked against this version without a vendor's suffix.
func TestVersionsAreAcceptedAlike(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "latest", "v1.16.0", "v1.28.9-eks-1", "v1.29.0-rc.1", "v1.33.4+k3s1", "v1.34.1-gke.1"} {
		_, err3 := render.Helm3(helmcharts.FS, version)
		_, err4 := helm4(helmcharts.FS, version)
		assert.Equal(t, fmt.Sprint(err4), fmt.Sprint(err3), version)
	}
}

// In Helm 4, .Capabilities.KubeVersion.Version in a template contains the suffix of a vendor. No chart of the operator reads it.
func TestTheVersionInATemplate(t *testing.T) {
	t.Parallel()
	three, four := of(t, "{{ .Capabilities.KubeVersion.Version }}, {{ .Capabilities.KubeVersion }}", "v1.34.1-gke.1")
	small := []render.Part{{Name: "a", Chart: "small"}}
	files3, err := three(release, small)
	assert.NilError(t, err)
	files4, err := four(release, small)
	assert.NilError(t, err)
	assert.Equal(t, files3[0][0].Text, "v1.34.1, v1.34.1")
	assert.Equal(t, files4[0][0].Text, "v1.34.1-gke.1, v1.34.1")
}

// When a chart refuses values, a status shows the chart's message to users. The messages of Helm 3 and Helm 4 are equal.
func TestErrorsOfChartsAreEqual(t *testing.T) {
	t.Parallel()
	three, four := engines(t)
	for _, part := range []render.Part{
		{Name: "a", Chart: "microservice", Values: map[string]any{"name": "a", "image": "a", "ingress": map[string]any{"host": "a"}}},
		{Name: "a", Chart: "oracle"},
	} {
		_, err3 := three(release, []render.Part{part})
		_, err4 := four(release, []render.Part{part})
		assert.Assert(t, err3 != nil && err4 != nil)
		assert.Equal(t, err4.Error(), err3.Error())
	}
}

// level matches one level of Helm 4's error of a template.
var level = regexp.MustCompile(`(?m)^(\S.*)\n  (executing .*)\n    (.*)\n?`)

// Other errors of a template are one line in Helm 3. Helm 4 writes three lines for each template that calls another.
func TestErrorsOfTemplatesAreSeveralLines(t *testing.T) {
	t.Parallel()
	three, four := of(t, `{{ define "inner" }}{{ .Values.missing.key }}{{ end }}{{ include "inner" . }}`, kubeVersion)
	small := []render.Part{{Name: "a", Chart: "small"}}
	_, err3 := three(release, small)
	assert.ErrorContains(t, err3, `map has no entry for key "missing"`)
	_, err4 := four(release, small)
	assert.ErrorContains(t, err4, "\n")
	assert.Equal(t, strings.TrimSpace(level.ReplaceAllString(err4.Error(), "template: $1: $2 $3 ")), err3.Error())
}

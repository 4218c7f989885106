// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
)

// schemaErrors validates values, with the chart's defaults, against values.schema.json.
func schemaErrors(t *testing.T, chartName string, v map[string]any) error {
	t.Helper()
	c, err := loader.Load(chartName)
	assert.NilError(t, err)
	assert.Assert(t, len(c.Schema) > 0, "%s has no schema", chartName)
	all, err := chartutil.CoalesceValues(c, v)
	assert.NilError(t, err)
	return chartutil.ValidateAgainstSchema(c, all)
}

// The operator does not validate values at run time, so the test checks that they match the schemas.
func TestTheOperatorsValuesFitTheSchemas(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../internal/platform/plan/testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 10, "the DataServices are missing")
	for _, file := range append(files, "../config/samples/d3os-product.com_v1_dataservice.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			assert.NilError(t, err)
			ds, err := plan.Parse(data)
			assert.NilError(t, err)
			graph, err := component.NewGraph(&ds.Spec)
			assert.NilError(t, err)
			nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
			secrets, err := plan.NewPreview().Plan(ds, graph, nothing, nil)
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

// The schemas refuse a misspelt value in any chart, at the top level or below.
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
			maps.Copy(bad, v)
			if chart == component.ChartMongoDB && key == "config" { // not all settings of MongoDB are texts
				continue
			}
			assert.Assert(t, schemaErrors(t, chart, bad) != nil, "%s takes %s: %v", chart, key, value)
		}
	}
	for _, values := range []string{
		"{databases: ['a`b']}", "{databases: ['']}",
		"{users: [{name: root}]}", "{users: [{name: \"a'\"}]}", "{users: [{name: a, databases: ['%']}]}",
		`{config: {a: "b\nc"}}`, `{config: {a: "b\r"}}`, `{config: {"a\nb": c}}`,
	} {
		assert.Assert(t, schemaErrors(t, component.ChartMySQL, parsed(t, values)) != nil, values)
	}
}

// The example values use every value of every chart.
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

// values.yaml lists the same fields as the schema, so no template lacks a value.
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

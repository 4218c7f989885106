// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/render"
)

// objects are what a chart makes of values, which its schema must allow, by kind and name.
type objects map[string]map[string]any

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), &v), "%s", text)
	return v
}

func made(t *testing.T, chart, values string) objects {
	t.Helper()
	assert.NilError(t, schemaErrors(t, chart, parsed(t, values)), "%s", values)
	found := objects{}
	for _, object := range rendered(t, chart, parsed(t, values)) {
		found[object.GetKind()+"/"+object.GetName()] = object.Object
	}
	return found
}

// refused is the error of values that do not render.
func refused(t *testing.T, chart, values string) string {
	t.Helper()
	renderer, err := render.New(kubeVersion)
	assert.NilError(t, err)
	_, err = renderer.Render(render.Release{Name: releaseName, Namespace: namespace}, []render.Part{{Name: "part", Chart: chart, Values: parsed(t, values)}})
	assert.Assert(t, err != nil, "%s renders", values)
	return err.Error()
}

// at follows keys, and indexes of lists, into an object; nil when there is no such thing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[step]
		case int:
			values, _ := value.([]any)
			if step >= len(values) {
				return nil
			}
			value = values[step]
		}
	}
	return value
}

// named finds an item of a list by its name.
func named(list any, name string) map[string]any {
	for _, item := range items(list) {
		if item["name"] == name {
			return item
		}
	}
	return nil
}

var workloadKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "CronJob"}

// pod is the pod template of the only workload.
func (o objects) pod(t *testing.T) map[string]any {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if kind, _, _ := strings.Cut(key, "/"); slices.Contains(workloadKinds, kind) {
			return podOf(t, &unstructured.Unstructured{Object: o[key]})
		}
	}
	t.Fatalf("no workload in %v", slices.Sorted(maps.Keys(o)))
	return nil
}

func (o objects) container(t *testing.T) map[string]any {
	t.Helper()
	return at(o.pod(t), "spec", "containers", 0).(map[string]any)
}

const (
	own      = "{name: own, image: own:v1, port: 8080, "
	job      = "{name: job, image: job:v1, schedule: '@daily', "
	platform = "endpoints: {mysql: {url: 'mysql://db:3306'}, eureka: {url: 'http://eureka:8761'}}, credentials: {mysql: {secretName: db}, platform: {secretName: platform}}, "
)

// anywhere is values of each chart, to add to.
var anywhere = map[string]string{
	component.ChartMicroservice: own, component.ChartMySQL: "{", component.ChartEureka: "{", component.ChartThirdParty: "{name: own, url: 'http://a.example.com', ",
	component.ChartCronJob: job,
}

// Labels are on all objects and pods; what selects and what cannot change has only ours.
func TestLabels(t *testing.T) {
	t.Parallel()
	labels := "labels: {team: data, app.kubernetes.io/name: theirs}, "
	all := map[string]string{
		component.ChartMicroservice: labels + "config: {a: b}, configFiles: [{path: /a, content: b}], replicas: 2, autoscaling: {min: 2, max: 3}, ingress: {host: a}, networkPolicy: {enabled: true}}",
		component.ChartMySQL:        labels + "databases: [a], networkPolicy: {enabled: true}}",
		component.ChartEureka:       labels + "kind: StatefulSet, replicas: 2}",
		component.ChartThirdParty:   labels + "}",
		component.ChartCronJob:      labels + "}",
	}
	selected := 0
	for chart, more := range all {
		found := made(t, chart, anywhere[chart]+more)
		pod := found.pod(t)
		for id, object := range found {
			assert.Equal(t, at(object, "metadata", "labels", "team"), "data", id)
			assert.Assert(t, at(object, "metadata", "labels", "app.kubernetes.io/name") != "theirs", id)
			for _, path := range [][]any{{"spec", "selector", "matchLabels"}, {"spec", "podSelector", "matchLabels"}, {"spec", "selector"}} {
				selector, _ := at(object, path...).(map[string]any)
				if selector == nil || selector["matchLabels"] != nil {
					continue
				}
				selected++
				assert.Equal(t, len(selector), 2, id)
				for k, v := range selector {
					assert.Equal(t, at(pod, "metadata", "labels", k), v, id)
				}
			}
		}
		assert.Equal(t, at(pod, "metadata", "labels", "team"), "data")
	}
	assert.Assert(t, selected >= 9, "%d selectors", selected)
	claim := at(made(t, component.ChartMySQL, "{"+labels+"}")["StatefulSet/mysql-dataservice"], "spec", "volumeClaimTemplates", 0)
	assert.Assert(t, at(claim, "metadata", "labels", "app.kubernetes.io/name") == "mysql" && at(claim, "metadata", "labels", "team") == nil, "%v", claim)
	assert.Equal(t, at(made(t, component.ChartCronJob, job+labels+"}")["CronJob/job"], "spec", "jobTemplate", "metadata", "labels", "team"), "data")
}

// Checksums of the chart go before annotations of the user's, and change with settings and contents.
func TestAnnotationsAndChecksums(t *testing.T) {
	t.Parallel()
	for chart, base := range anywhere {
		sum := func(more string) any {
			return at(made(t, chart, base+more+"}").pod(t), "metadata", "annotations", "checksum/config")
		}
		usual := sum("")
		assert.Equal(t, usual != nil, chart == component.ChartMySQL, chart)
		seen := map[any]bool{usual: true}
		for _, more := range []string{
			"config: {a: b}", "config: {a: c}", "configFiles: [{path: /a, content: b}]", "configFiles: [{path: /a, content: c}]", "configFiles: [{path: /b, content: c}]",
			"config: {a: b}, configFiles: [{path: /a, content: b}]",
		} {
			got := sum(more)
			assert.Assert(t, got != nil && !seen[got], "%s: %s", chart, more)
			seen[got] = true
			assert.Equal(t, sum(more+", annotations: {checksum/config: theirs}"), got)
		}
		assert.Equal(t, sum("configFiles: [{path: /a, secret: b}]"), usual, "what is in it is not known")
		assert.Equal(t, at(made(t, chart, base+"annotations: {a: b}}").pod(t), "metadata", "annotations", "a"), "b")
	}
	presets := []any{}
	for _, values := range []string{"{service: web}", "{service: web, config: {A: b}}", "{service: web, configFiles: [{path: /a, content: ''}]}"} {
		presets = append(presets, at(made(t, component.ChartMicroservice, values).pod(t), "metadata", "annotations", "checksum/config"))
	}
	assert.Assert(t, presets[0] != presets[1] && presets[0] != presets[2], "%v", presets)
}

func TestAddressesOfTheDatabase(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"mysql://db":                    {"db", "3306"},
		"mysql://db.example.com:13306/": {"db.example.com", "13306"},
		"mysql://[2001:db8::1]":         {"2001:db8::1", "3306"},
		"mysql://[2001:db8::1]:13306":   {"2001:db8::1", "13306"},
		"mysql://a:1,b:2":               {"a", "1"},
	} {
		for chart, base := range map[string]string{component.ChartMicroservice: own, component.ChartCronJob: job} {
			env := made(t, chart, base+"endpoints: {mysql: {url: '"+url+"'}}}").container(t)["env"]
			assert.Equal(t, named(env, "MYSQL_HOST")["value"], want[0], url)
			assert.Equal(t, named(env, "MYSQL_PORT")["value"], want[1], url)
			assert.Assert(t, named(env, "MYSQL_PASSWORD") == nil, "no Secret is named")
		}
	}
}

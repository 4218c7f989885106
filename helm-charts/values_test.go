// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"fmt"
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

func TestEnvironment(t *testing.T) {
	t.Parallel()
	reference := func(name string) string { return name + "=valueFrom" }
	for name, test := range map[string]struct {
		chart, values string
		want          []string
	}{
		"by name":             {component.ChartMicroservice, own + "env: {B: b, A: ''}}", []string{"A=", "B=b", "TZ=Asia/Shanghai"}},
		"no time zone":        {component.ChartMicroservice, own + "timeZone: ''}", nil},
		"then in order":       {component.ChartMicroservice, own + "env: {B: b}, envs: [{name: Z, value: z}, {name: A, value: $(Z)}]}", []string{"B=b", "TZ=Asia/Shanghai", "Z=z", "A=$(Z)"}},
		"later ones win":      {component.ChartMicroservice, own + "env: {B: b, TZ: UTC}, envs: [{name: B, value: c}, {name: A, value: '1'}, {name: B, value: d}]}", []string{"TZ=UTC", "A=1", "B=d"}},
		"over the preset's":   {component.ChartMicroservice, "{service: ds-adapter, " + platform + "env: {MYSQL_USERNAME: me}, envs: [{name: MYSQL_PASSWORD, value: mine}]}", []string{"MYSQL_USERNAME=me", "TZ=Asia/Shanghai", "MYSQL_PASSWORD=mine"}},
		"references":          {component.ChartMicroservice, own + "envs: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}", []string{"TZ=Asia/Shanghai", reference("A")}},
		"a probe's":           {component.ChartThirdParty, "{name: a, url: 'mysql://b', envs: [{name: CHECK_URL, value: c}]}", []string{"CHECK_PORT=3306", "TZ=Asia/Shanghai", "CHECK_URL=c"}},
		"the platform's":      {component.ChartMicroservice, own + platform + "}", []string{"EUREKA_URL=http://eureka:8761", "MYSQL_HOST=db", reference("MYSQL_PASSWORD"), "MYSQL_PORT=3306", reference("MYSQL_USERNAME"), "TZ=Asia/Shanghai"}},
		"over the platform's": {component.ChartCronJob, job + "env: {UUC_URL: mine}, endpoints: {uuc: {url: 'http://uuc/a/'}, mysql: {url: 'mysql://db'}}, envs: [{name: MYSQL_HOST, value: proxy}]}", []string{"MYSQL_PORT=3306", "TZ=Asia/Shanghai", "UUC_URL=mine", "MYSQL_HOST=proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, variable := range items(made(t, test.chart, test.values).container(t)["env"]) {
				switch value, ok := variable["value"]; {
				case ok:
					got = append(got, fmt.Sprintf("%s=%s", variable["name"], value))
				case variable["valueFrom"] != nil:
					got = append(got, reference(variable["name"].(string)))
				default:
					got = append(got, variable["name"].(string)+"=")
				}
			}
			assert.DeepEqual(t, got, test.want)
		})
	}
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

func TestProbes(t *testing.T) {
	t.Parallel()
	tcp := func(port int64) map[string]any { return map[string]any{"port": port} }
	for name, test := range map[string]struct {
		chart, values, probe string
		handler              string
		want                 any // of the handler; nil for no probe
	}{
		"the port":            {component.ChartMicroservice, own + "}", "liveness", "tcpSocket", tcp(8080)},
		"the container's":     {component.ChartMicroservice, own + "ports: [{name: a, port: 8080, targetPort: 9000}]}", "startup", "tcpSocket", tcp(9000)},
		"the first":           {component.ChartMicroservice, "{name: a, image: b, ports: [{name: a, port: 1}, {name: b, port: 2}]}", "startup", "tcpSocket", tcp(1)},
		"a sidecar's port":    {component.ChartMicroservice, own + "ports: [{name: a, port: 8080, targetPort: web}]}", "startup", "tcpSocket", nil},
		"no port":             {component.ChartMicroservice, "{name: a, image: b, probes: {path: /a, readiness: {periodSeconds: 1}}}", "readiness", "httpGet", nil},
		"no port but exec":    {component.ChartMicroservice, "{name: a, image: b, probes: {readiness: {exec: {command: [a]}}}}", "readiness", "exec", map[string]any{"command": []any{"a"}}},
		"a path":              {component.ChartMicroservice, own + "probes: {path: /a}}", "readiness", "httpGet", map[string]any{"path": "/a", "port": int64(8080)}},
		"a handler":           {component.ChartMicroservice, own + "probes: {path: /a, readiness: {grpc: {port: 1}}}}", "readiness", "grpc", map[string]any{"port": int64(1), "service": nil}},
		"beside a handler":    {component.ChartMicroservice, own + "probes: {path: /a, readiness: {grpc: {port: 1}}}}", "liveness", "httpGet", map[string]any{"path": "/a", "port": int64(8080)}},
		"disabled":            {component.ChartMicroservice, own + "probes: {readiness: {disabled: true, exec: {command: [a]}}}}", "readiness", "exec", nil},
		"null":                {component.ChartMicroservice, own + "probes: {readiness: null}}", "readiness", "tcpSocket", nil},
		"not disabled":        {component.ChartEureka, "{probes: {readiness: {disabled: false}}}", "readiness", "tcpSocket", tcp(8761)},
		"a check's":           {component.ChartThirdParty, "{name: a, url: 'http://b', checkCommand: c}", "readiness", "exec", map[string]any{"command": []any{"/bin/sh", "-c", "c"}}},
		"in place of a check": {component.ChartThirdParty, "{name: a, url: 'http://b', probes: {readiness: {exec: {command: [d]}}}}", "readiness", "exec", map[string]any{"command": []any{"d"}}},
		"no check":            {component.ChartThirdParty, "{name: a, url: 'http://b', probes: {readiness: {disabled: true}}}", "readiness", "exec", nil},
		"no other check":      {component.ChartThirdParty, "{name: a, url: 'http://b'}", "liveness", "exec", nil},
		"one more check":      {component.ChartThirdParty, "{name: a, url: 'http://b', probes: {liveness: {exec: {command: [d]}}}}", "liveness", "exec", map[string]any{"command": []any{"d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			probe := made(t, test.chart, test.values).container(t)[test.probe+"Probe"]
			if test.want == nil {
				assert.Assert(t, probe == nil, "%v", probe)
				return
			}
			assert.DeepEqual(t, at(probe, test.handler), test.want)
			handlers := slices.DeleteFunc(slices.Sorted(maps.Keys(probe.(map[string]any))), func(field string) bool {
				return !slices.Contains([]string{"exec", "grpc", "httpGet", "tcpSocket"}, field)
			})
			assert.DeepEqual(t, handlers, []string{test.handler})
		})
	}
	merged := made(t, component.ChartMicroservice, own+"probes: {startup: {failureThreshold: 9, initialDelaySeconds: 7}}}").container(t)["startupProbe"]
	assert.DeepEqual(t, merged, map[string]any{"periodSeconds": int64(5), "timeoutSeconds": int64(3), "failureThreshold": int64(9), "initialDelaySeconds": int64(7), "tcpSocket": tcp(8080)})
	check := made(t, component.ChartThirdParty, "{name: a, url: 'http://b', probes: {readiness: {periodSeconds: 60}}}").container(t)["readinessProbe"]
	assert.Equal(t, at(check, "periodSeconds"), int64(60))
	assert.Equal(t, at(check, "timeoutSeconds"), int64(8))
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
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
	items, _ := list.([]any)
	for _, item := range items {
		if item := item.(map[string]any); item["name"] == name {
			return item
		}
	}
	return nil
}

// flow is a value as JSON, to compare with.
func flow(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	assert.NilError(t, err)
	return string(text)
}

const (
	own = "{name: own, image: own:v1, port: 8080, "
	job = "{name: job, image: job:v1, schedule: '@daily', "
)

// What values mean that the operator never gives: it refuses such fields, or gives others. What each field of a DataService
// means for the manifests is golden in test/fields.
func TestValuesOfPlainHelm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values, object string
		path           []any
		want           string
	}{
		"no more pods, so one less": {"rollingUpdate: {maxSurge: 0}", "Deployment", []any{"strategy"}, `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}`},
		"a StatefulSet, all gone":   {"kind: StatefulSet, strategy: Recreate", "StatefulSet", []any{"updateStrategy"}, `{}`},
		"a StatefulSet, one less":   {"kind: StatefulSet, rollingUpdate: {maxUnavailable: 1}", "StatefulSet", []any{"updateStrategy"}, `{}`},
		"a DaemonSet":               {"kind: DaemonSet", "DaemonSet", []any{"updateStrategy"}, `{}`},
		"a DaemonSet has no number": {"kind: DaemonSet, replicas: 2", "DaemonSet", []any{"replicas"}, `null`},
		"nor an autoscaler":         {"kind: DaemonSet, autoscaling: {min: 2, max: 3}", "HorizontalPodAutoscaler", nil, `null`},
		"somebody else's number":    {"replicas: null", "Deployment", []any{"replicas"}, `null`},
		"a target as text":          {"ports: [{name: a, port: 1, targetPort: '2'}]", "Service", []any{"ports", 1, "targetPort"}, `2`},
		"no time zone":              {"timeZone: ''", "Deployment", []any{"template", "spec", "containers", 0, "env"}, `null`},
		"a database without a port": {"timeZone: '', endpoints: {mysql: {url: 'mysql://[2001:db8::1]'}}",
			"Deployment", []any{"template", "spec", "containers", 0, "env"},
			`[{"name":"MYSQL_HOST","value":"2001:db8::1"},{"name":"MYSQL_PORT","value":"3306"}]`},
		"a label that is ours": {"labels: {app.kubernetes.io/name: theirs}",
			"Deployment", []any{"template", "metadata", "labels", "app.kubernetes.io/name"}, `"own"`},
		"no policy": {"networkPolicy: {from: [a], open: true}", "NetworkPolicy", nil, `null`},
		"a published port, and callers": {"ports: [{name: a, port: 9}], ingress: {host: a.b}, networkPolicy: {enabled: true, from: [b, a, b]}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"}]},{"from":[{"podSelector":{"matchExpressions":[{"key":"app.kubernetes.io/name","operator":"In","values":["a","b"]}],` +
				`"matchLabels":{"app.kubernetes.io/instance":"release"}}}],"ports":[{"port":9,"protocol":"TCP"}]}]`},
		"a mesh's port, for callers and not for all whom an ingress brings": {"ingress: {host: a.b}, networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}], additionalPorts: [15008]}", "NetworkPolicy",
			[]any{"ingress"}, `[{"ports":[{"port":8080,"protocol":"TCP"}]},{"from":[{"podSelector":{}}],"ports":[{"port":15008,"protocol":"TCP"}]}]`},
		"a mesh's port, for everyone": {"networkPolicy: {enabled: true, open: true, additionalPorts: [15008]}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"},{"port":15008,"protocol":"TCP"}]}]`},
		"a mesh's port, for no one": {"networkPolicy: {enabled: true, additionalPorts: [15008]}", "NetworkPolicy", []any{"ingress"}, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := made(t, component.ChartMicroservice, own+test.values+"}")
			assert.Equal(t, flow(t, at(found[test.object+"/own"]["spec"], test.path...)), test.want)
		})
	}
	const (
		onNode     = "ports: [{name: a, port: 1, nodePort: 30000}], "
		replaced   = "configFiles replaces "
		script     = "/usr/share/nginx/html/app.config.js"
		options    = "/etc/mysql/conf.d/my.cnf"
		properties = "/config/application.properties"
	)
	for _, test := range []struct{ chart, values, want string }{
		{component.ChartMicroservice, own + onNode + "serviceType: ClusterIP}", "a nodePort needs a serviceType"},
		{component.ChartMicroservice, own + onNode + "serviceType: Headless}", "a nodePort needs a serviceType"},
		{component.ChartMicroservice, "{name: own, image: a, ingress: {host: a}}", "ingress needs a port"},
		{component.ChartMicroservice, "{service: web, config: {A: b}, configFiles: [{path: " + script + ", content: mine}]}", replaced + script},
		{component.ChartMySQL, "{config: {A: b}, configFiles: [{path: " + options + ", content: mine}]}", replaced + options},
		{component.ChartCronJob, job + "config: {A: b}, configFiles: [{path: " + properties + ", secret: mine}]}", replaced + properties},
		{component.ChartMySQL, `{config: {a: "b\nc"}}`, "must be one line"},
	} {
		assert.Assert(t, strings.Contains(refused(t, test.chart, test.values), test.want), test.values)
	}
	made(t, component.ChartCronJob, job+"configFiles: [{path: "+properties+", secret: mine}]}")
	kept := made(t, component.ChartMicroservice, own+"config: {a: b}, annotations: {checksum/config: theirs}}")["Deployment/own"]
	sum := at(kept, "spec", "template", "metadata", "annotations", "checksum/config")
	assert.Assert(t, sum != nil && sum != "theirs", "%v", sum)
}

// mysqlPod is the spec of the pods of mysql.
func mysqlPod(t *testing.T, values string) any {
	t.Helper()
	return at(made(t, component.ChartMySQL, values)["StatefulSet/mysql-dataservice"], "spec", "template", "spec")
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
		for _, mount := range at(mysqlPod(t, values), "containers", 0, "volumeMounts").([]any) {
			if path := at(mount, "mountPath").(string); strings.HasPrefix(path, "/etc/") {
				got = append(got, path)
			}
		}
		assert.DeepEqual(t, got, want)
	}
}

// What makes databases and users changes without the pod, and knows the server by the user's own words.
func TestAccountsOfMySQL(t *testing.T) {
	t.Parallel()
	more := mysqlPod(t, "{databases: [a, b], users: [{name: u, databases: [a, b]}, {name: v}]}")
	assert.DeepEqual(t, more, mysqlPod(t, "{databases: [a]}"))
	theirs := mysqlPod(t, `{users: [{name: u}], usersSecret: theirs, env: {MYSQL_USER: a},
		envs: [{name: MYSQL_ROOT_PASSWORD, value: b}]}`)
	assert.Equal(t, at(named(at(theirs, "volumes"), "accounts-passwords"), "secret", "secretName"), "theirs")
	assert.Equal(t, flow(t, named(at(theirs, "containers"), "accounts")["env"]),
		`[{"name":"MYSQL_ROOT_PASSWORD","value":"b"},{"name":"MYSQL_USER","value":"a"}]`)
}

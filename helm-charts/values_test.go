// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// objects are the rendered objects of a chart by kind and name. The chart's schema must allow the values.
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

// refused returns the error of values that do not render. It fails the test if they render.
func refused(t *testing.T, chart, values string) string {
	t.Helper()
	renderer, err := render.New(kubeVersion)
	assert.NilError(t, err)
	_, err = renderer.Render(render.Release{Name: releaseName, Namespace: namespace}, []render.Part{{Name: "part", Chart: chart, Values: parsed(t, values)}})
	assert.Assert(t, err != nil, "%s renders", values)
	return err.Error()
}

// at follows keys, and indexes of lists, into an object. It returns nil if a key or an index does not exist.
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

// flow returns a value as JSON, for comparisons.
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

// The cases show the effect of values that the operator never sets, because it refuses such fields or sets other values. The golden files
// in test/fields show the effect of each field of a DataService.
func TestValuesOfPlainHelm(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values, object string
		path           []any
		want           string
	}{
		"a rolling update with maxSurge 0":     {"rollingUpdate: {maxSurge: 0}", "Deployment", []any{"strategy"}, `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}`},
		"a StatefulSet with strategy Recreate": {"kind: StatefulSet, strategy: Recreate", "StatefulSet", []any{"updateStrategy"}, `{}`},
		"a StatefulSet with maxUnavailable":    {"kind: StatefulSet, rollingUpdate: {maxUnavailable: 1}", "StatefulSet", []any{"updateStrategy"}, `{}`},
		"a DaemonSet":                          {"kind: DaemonSet", "DaemonSet", []any{"updateStrategy"}, `{}`},
		"a DaemonSet has no replicas":          {"kind: DaemonSet, replicas: 2", "DaemonSet", []any{"replicas"}, `null`},
		"a DaemonSet has no autoscaler":        {"kind: DaemonSet, autoscaling: {min: 2, max: 3}", "HorizontalPodAutoscaler", nil, `null`},
		"replicas of another writer":           {"replicas: null", "Deployment", []any{"replicas"}, `null`},
		"a target as text":                     {"ports: [{name: a, port: 1, targetPort: '2'}]", "Service", []any{"ports", 1, "targetPort"}, `2`},
		"no time zone":                         {"timeZone: ''", "Deployment", []any{"template", "spec", "containers", 0, "env"}, `null`},
		"a database without a port": {"timeZone: '', endpoints: {mysql: {url: 'mysql://[2001:db8::1]'}}",
			"Deployment", []any{"template", "spec", "containers", 0, "env"},
			`[{"name":"MYSQL_HOST","value":"2001:db8::1"},{"name":"MYSQL_PORT","value":"3306"}]`},
		"a label that the chart sets": {"labels: {app.kubernetes.io/name: theirs}",
			"Deployment", []any{"template", "metadata", "labels", "app.kubernetes.io/name"}, `"own"`},
		"no network policy": {"networkPolicy: {from: [a], open: true}", "NetworkPolicy", nil, `null`},
		"a published port, and callers": {"ports: [{name: a, port: 9}], ingress: {host: a.b}, networkPolicy: {enabled: true, from: [b, a, b]}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"}]},{"from":[{"podSelector":{"matchExpressions":[{"key":"app.kubernetes.io/name","operator":"In","values":["a","b"]}],` +
				`"matchLabels":{"app.kubernetes.io/instance":"release"}}}],"ports":[{"port":9,"protocol":"TCP"}]}]`},
		"a port that a Gateway reaches": {"httpRoute: {gateways: [{name: a}]}, networkPolicy: {enabled: true}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"}]}]`},
		"a mesh's port, for callers, but not for all addresses": {"ingress: {host: a.b}, networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}], additionalPorts: [15008]}", "NetworkPolicy",
			[]any{"ingress"}, `[{"ports":[{"port":8080,"protocol":"TCP"}]},{"from":[{"podSelector":{}}],"ports":[{"port":15008,"protocol":"TCP"}]}]`},
		"a mesh's port, for all addresses": {"networkPolicy: {enabled: true, open: true, additionalPorts: [15008]}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"},{"port":15008,"protocol":"TCP"}]}]`},
		"a mesh's port without callers": {"networkPolicy: {enabled: true, additionalPorts: [15008]}", "NetworkPolicy", []any{"ingress"}, `null`},
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
		{component.ChartMySQL, `{config: {"#a": b}}`, "not the name of an option"},
		{component.ChartMySQL, `{config: {a: "'b'"}}`, "must not be in quotes"},
		{component.ChartCronJob, "{name: job, image: job:v1, agentImage: agent:v1, schedule: '*/10 * * * * *'}", "command must be given"},
		{component.ChartCronJob, "{name: job, image: job:v1, command: [a], schedule: '*/10 * * * * *'}", "agentImage must be given"},
	} {
		assert.Assert(t, strings.Contains(refused(t, test.chart, test.values), test.want), test.values)
	}
	made(t, component.ChartCronJob, job+"configFiles: [{path: "+properties+", secret: mine}]}")
	kept := made(t, component.ChartMicroservice, own+"config: {a: b}, annotations: {checksum/config: theirs}}")["Deployment/own"]
	sum := at(kept, "spec", "template", "metadata", "annotations", "checksum/config")
	assert.Assert(t, sum != nil && sum != "theirs", "%v", sum)
}

// mysqlPod returns the spec of the pods of mysql.
func mysqlPod(t *testing.T, values string) any {
	t.Helper()
	return at(made(t, component.ChartMySQL, values)["StatefulSet/mysql-dataservice"], "spec", "template", "spec")
}

// A configuration file can be mounted into mysqld's option folder. Without such a file the folder is a volume.
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

// Accounts without SUPER may create triggers and functions if the binary log is on: because of the chart, or by default, as in MySQL 8 and
// 9. Without point-in-time backups, the other settings of a server are unchanged.
func TestBinaryLogOfMySQL(t *testing.T) {
	t.Parallel()
	const backup = "backup: {destination: {claim: {name: backups}}, pointInTime: {}}"
	for values, want := range map[string]string{
		"{}":                                     "",
		"{serverVersion: '5.7'}":                 "",
		"{serverVersion: '8.0'}":                 "loose_log_bin_trust_function_creators = 1",
		"{serverVersion: '9.7'}":                 "loose_log_bin_trust_function_creators = 1",
		"{serverVersion: '10.11'}":               "",
		"{" + backup + "}":                       "server_id = 1 log_bin = binlog binlog_format = ROW loose_log_bin_trust_function_creators = 1 expire_logs_days = 3",
		"{serverVersion: '8.4', " + backup + "}": "server_id = 1 log_bin = binlog binlog_format = ROW loose_log_bin_trust_function_creators = 1 binlog_expire_logs_seconds = 259200",
	} {
		text := at(made(t, component.ChartMySQL, values)["ConfigMap/mysql-dataservice"], "data", "my.cnf").(string)
		_, rest, _ := strings.Cut(text, "sync_binlog = 1\n")
		var got []string
		for line := range strings.Lines(rest[:strings.Index(rest, "[client]")]) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				got = append(got, line)
			}
		}
		assert.Equal(t, strings.Join(got, " "), want)
	}
}

// Server-side apply refuses pods with the same pull secret twice.
func TestPullSecretsAreUnique(t *testing.T) {
	t.Parallel()
	const values = "{agentImage: agent:v1, imagePullSecrets: [{name: a}, {name: b}, {name: a}], backup: {destination: {claim: {name: backups}}}}"
	found := made(t, component.ChartMySQL, values)
	want := []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}
	assert.DeepEqual(t, at(found["StatefulSet/mysql-dataservice"], "spec", "template", "spec", "imagePullSecrets"), want)
	assert.DeepEqual(t, at(found["CronJob/mysql-dataservice-backup"], "spec", "jobTemplate", "spec", "template", "spec", "imagePullSecrets"), want)
}

// Other databases and users do not change the pod. The script that creates them connects to the server with the user's settings.
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

// A service mesh uses HTTP on a port with a name that begins with http, unless appProtocol names another protocol. On a port without such a
// name or appProtocol, the mesh detects the protocol and waits for the client's first bytes. The connection would hang, because a database
// server sends first.
func TestPortsOfDatabasesNameTheirProtocol(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	isHTTP := map[string]bool{"metrics": true}
	for chart, services := range map[string]int{"mysql": 1, "rediscluster": 2, "etcdcluster": 2, "mysqlcluster": 3} {
		v := map[string]any{"agentImage": "agent", "monitorImage": "exporter"}
		if chart != "rediscluster" {
			delete(v, "monitorImage")
		}
		rendered, err := renderer.Render(render.Release{Name: "data", Namespace: "data"}, []render.Part{{Name: "part", Chart: chart, Values: v}})
		assert.NilError(t, err)
		found := 0
		for _, obj := range rendered[0] {
			if obj.GetKind() != "Service" {
				continue
			}
			found++
			service := &corev1.Service{}
			assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, service))
			for _, port := range service.Spec.Ports {
				want := "tcp"
				if isHTTP[port.Name] {
					want = "http"
				}
				assert.Assert(t, port.AppProtocol != nil && *port.AppProtocol == want, "%s %s, port %s", chart, service.Name, port.Name)
			}
		}
		assert.Equal(t, found, services, chart)
	}
}

// formatted returns a text with settings in a format, as the library writes them.
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
		"a new key":                      {"properties", "a=1\n", map[string]any{"b": "2", "c": ""}, "a=1\nb=2\nc=\n"},
		"a key keeps its place":          {"properties", "a=1\nb=2\nc=3\n", map[string]any{"b": "x"}, "a=1\nb=x\nc=3\n"},
		"a dot matches only a dot":       {"properties", "axb=1\na.b=2\n", map[string]any{"a.b": "x"}, "axb=1\na.b=x\n"},
		"similar keys are unchanged":     {"properties", "#a=1\naa=1\na.a=1\n", map[string]any{"a": "x"}, "#a=1\naa=1\na.a=1\na=x\n"},
		"a value with dollar signs":      {"properties", "a=1\n", map[string]any{"a": "$0 ${0} $1"}, "a=$0 ${0} $1\n"},
		"in the order of names":          {"properties", "", map[string]any{"a b": "1", "a-b": "2", "a:b": "3"}, "a\\ b=1\na-b=2\na\\:b=3\n"},
		"with blanks":                    {"properties", " a : 1\nb = 2\n", map[string]any{"a": "x", "b": "y"}, "a=x\nb=y\n"},
		"nested":                         {"yaml", "a: {b: 1, c: 2}\n", map[string]any{"a.b": "x"}, "a:\n  b: x\n  c: 2\n"},
		"values in the place of parents": {"yaml", "a: 1\nb: [1]\n", map[string]any{"a.b": "x", "b.c": "y"}, "a:\n  b: x\nb:\n  c: \"y\"\n"},
		"a value replaces a map":         {"yaml", "a: {b: 1}\n", map[string]any{"a": "x"}, "a: x\n"},
		"a key with dots":                {"yaml", "a.b: 1\na.c: 2\n", map[string]any{"a.b": "x"}, "a:\n  b: x\na.c: 2\n"},
		"a parent without a value":       {"yaml", "a:\n", map[string]any{"a.b": "x"}, "a:\n  b: x\n"},
		"a string":                       {"yaml", "a: 1\nlong: 1800000\n", map[string]any{"a": "true"}, "a: \"true\"\nlong: 1800000\n"},
		"several":                        {"yaml", "{}", map[string]any{"a.b": "1", "a.c.d": "x"}, "a:\n  b: \"1\"\n  c:\n    d: x\n"},
		"a name that is a number":        {"javascript", "", map[string]any{"1": "2"}, "Object.assign(window.HAIER_APP_CONFIG, {\"1\": 2});\n"},
		"every character": {"properties", "", map[string]any{"key with = : blank": "  two", "#hash": "\tone\r\n", `back\slash`: `C:\new`, "emoji": "您😀"},
			`\#hash=\tone\r\n` + "\n" + `back\\slash=C:\\new` + "\n" + `emoji=\u60a8\ud83d\ude00` + "\n" + `key\ with\ \=\ \:\ blank=\  two` + "\n"},
		"text in a script": {"javascript", "", map[string]any{"A": "a'b\"\n</script>", "B": "true", "C": "-1.50", "D": "007", "E": "1e3", "F": "null"},
			`Object.assign(window.HAIER_APP_CONFIG, {"A": "a'b\"\n\u003c/script\u003e", "B": true, "C": -1.50, "D": "007", "E": "1e3", "F": "null"});` + "\n"},
		"options": {"mysqld", "[client]\n", map[string]any{"b": "1;2", "a": ""}, "[client]\n\n[mysqld]\na\nb = 1;2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, formatted(t, test.format, test.text, test.settings), test.want)
		})
	}
}

// The table of sizes in the docs equals the charts' values.
func TestTheTableOfSizes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/services.md")
	assert.NilError(t, err)
	for _, size := range []string{"small", "medium", "large"} {
		row := "| " + size
		for _, chart := range []string{component.ChartMicroservice, component.ChartMySQL, component.ChartEureka, component.ChartCronJob} {
			data, err := os.ReadFile(chart + "/values.yaml")
			assert.NilError(t, err)
			var v struct {
				Sizes map[string]struct{ Requests, Limits map[string]string }
			}
			assert.NilError(t, yaml.Unmarshal(data, &v))
			s := v.Sizes[size]
			assert.Equal(t, s.Requests["memory"], s.Limits["memory"], "a request below the limit: a node without free memory kills the pod")
			row += fmt.Sprintf(" | %s to %s CPU, %s", s.Requests["cpu"], s.Limits["cpu"], s.Limits["memory"])
		}
		assert.Assert(t, is.Contains(strings.Split(string(text), "\n"), row+" |"))
	}
}

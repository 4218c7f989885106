// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"gotest.tools/v3/assert"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
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

func TestSizes(t *testing.T) {
	t.Parallel()
	for chart, base := range anywhere {
		sizes := readValues(t, chart+"/values.yaml")["sizes"].(map[string]any)
		assert.DeepEqual(t, slices.Sorted(maps.Keys(sizes)), []string{"large", "medium", "small"})
		usual := made(t, chart, base+"}").container(t)["resources"]
		for size := range sizes {
			given := sizes[size].(map[string]any)
			got := made(t, chart, base+"size: "+size+"}").container(t)["resources"]
			assert.Equal(t, at(got, "limits", "memory"), at(given, "limits", "memory"), "%s %s", chart, size)
			assert.Equal(t, at(got, "requests", "cpu") != nil, true)
			if size == "large" && chart != component.ChartThirdParty {
				assert.Assert(t, fmt.Sprint(got) != fmt.Sprint(usual), chart)
			}
		}
		one := map[string]any{"limits": map[string]any{"memory": "1Mi"}}
		assert.DeepEqual(t, made(t, chart, base+"size: custom, resources: {limits: {memory: 1Mi}}}").container(t)["resources"], one)
		assert.DeepEqual(t, made(t, chart, base+"size: large, resources: {limits: {memory: 1Mi}}}").container(t)["resources"], one)
		assert.DeepEqual(t, made(t, chart, base+"size: custom}").container(t)["resources"], map[string]any{})
	}
	preset := made(t, component.ChartMicroservice, "{service: web, size: small}").container(t)["resources"]
	assert.Equal(t, at(preset, "limits", "memory"), "512Mi", "the size goes before the preset's")
	cnf := made(t, component.ChartMySQL, "{size: large}")["ConfigMap/mysql-dataservice"]
	assert.Assert(t, strings.Contains(at(cnf, "data", "my.cnf").(string), "\ninnodb_buffer_pool_size = 5G\n"))
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

// The users' containers come around the component's own, and may do no more unless they say so.
func TestContainers(t *testing.T) {
	t.Parallel()
	restricted := map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}}
	for chart, base := range anywhere {
		spec := made(t, chart, base+"initContainers: [{name: a, image: a}, {name: b, image: b, securityContext: {privileged: true}}], sidecars: [{name: c, image: c, securityContext: {}}, {name: d, image: d, securityContext: null}],"+
			"command: [run], volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}], envFrom: [{secretRef: {name: s}}]}").pod(t)["spec"].(map[string]any)
		inits, containers := items(spec["initContainers"]), items(spec["containers"])
		assert.DeepEqual(t, inits[0]["securityContext"], restricted)
		assert.DeepEqual(t, inits[1]["securityContext"], map[string]any{"privileged": true})
		assert.Equal(t, len(containers), 3)
		assert.DeepEqual(t, containers[1]["securityContext"], map[string]any{})
		assert.DeepEqual(t, containers[2]["securityContext"], restricted)
		assert.DeepEqual(t, containers[0]["command"], []any{"run"})
		assert.DeepEqual(t, containers[0]["envFrom"], []any{map[string]any{"secretRef": map[string]any{"name": "s"}}})
		assert.Equal(t, named(containers[0]["volumeMounts"], "v")["mountPath"], "/v")
		assert.Assert(t, named(spec["volumes"], "v") != nil)
	}
	probe := made(t, component.ChartThirdParty, "{name: a, url: 'http://b', args: [x]}").container(t)
	assert.Assert(t, probe["command"] == nil, "the arguments are not for the probe's own command")
	assert.DeepEqual(t, probe["args"], []any{"x"})
}

func TestSecurityContexts(t *testing.T) {
	t.Parallel()
	found := made(t, component.ChartMicroservice, own+"podSecurityContext: {runAsUser: 1, fsGroup: null, supplementalGroups: [2]}, securityContext: {readOnlyRootFilesystem: true, capabilities: null}}")
	assert.DeepEqual(t, at(found.pod(t), "spec", "securityContext"), map[string]any{
		"runAsNonRoot": true, "runAsUser": int64(1), "runAsGroup": int64(10001), "supplementalGroups": []any{int64(2)}, "fsGroupChangePolicy": "OnRootMismatch",
		"seccompProfile": map[string]any{"type": "RuntimeDefault"},
	})
	assert.DeepEqual(t, found.container(t)["securityContext"], map[string]any{"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false})
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

func TestScheduling(t *testing.T) {
	t.Parallel()
	for chart, base := range anywhere {
		pod := made(t, chart, base+"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: b, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {c: d}}}],"+
			"nodeSelector: {a: b}, tolerations: [{operator: Exists}], priorityClassName: high, imagePullSecrets: [{name: r}], serviceAccountName: s, affinity: {nodeAffinity: {}}}").pod(t)
		spec := pod["spec"]
		selector := at(spec, "topologySpreadConstraints", 0, "labelSelector", "matchLabels").(map[string]any)
		assert.Equal(t, len(selector), 2, chart)
		for k, v := range selector {
			assert.Equal(t, at(pod, "metadata", "labels", k), v)
		}
		assert.DeepEqual(t, at(spec, "topologySpreadConstraints", 1, "labelSelector", "matchLabels"), map[string]any{"c": "d"})
		assert.Equal(t, at(spec, "nodeSelector", "a"), "b")
		assert.Equal(t, at(spec, "tolerations", 0, "operator"), "Exists")
		assert.Equal(t, at(spec, "priorityClassName"), "high")
		assert.Equal(t, at(spec, "imagePullSecrets", 0, "name"), "r")
		assert.Equal(t, at(spec, "serviceAccountName"), "s")
		assert.Assert(t, at(spec, "affinity", "nodeAffinity") != nil)
	}
}

// properties reads a file as java.util.Properties does.
func properties(t *testing.T, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t\f")
		if line == "" || strings.ContainsRune("#!", rune(line[0])) {
			continue
		}
		assert.Assert(t, !regexp.MustCompile(`[^\t -~]`).MatchString(line), "%q is not ASCII", line)
		end := regexp.MustCompile(`^(\\.|[^\\=: \t\f])*`).FindString(line)
		value := strings.TrimLeft(line[len(end):], " \t\f")
		if value != "" && strings.ContainsRune("=:", rune(value[0])) {
			value = strings.TrimLeft(value[1:], " \t\f")
		}
		_, twice := found[unescaped(t, end)]
		assert.Assert(t, !twice, "%q is there twice", end)
		found[unescaped(t, end)] = unescaped(t, value)
	}
	return found
}

func unescaped(t *testing.T, text string) string {
	t.Helper()
	var units []uint16
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			units = append(units, uint16(text[i]))
			continue
		}
		i++
		assert.Assert(t, i < len(text), "%q has no end", text)
		switch c := text[i]; c {
		case 'u':
			code, err := strconv.ParseUint(text[i+1:i+5], 16, 16)
			assert.NilError(t, err)
			units = append(units, uint16(code))
			i += 4
		case 't', 'n', 'r', 'f':
			units = append(units, uint16(map[byte]byte{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f'}[c]))
		default:
			units = append(units, uint16(c))
		}
	}
	return string(utf16.Decode(units))
}

// awkward are settings of which every character has to survive.
var awkward = map[string]string{
	"plain": "value", "empty": "", "leading": "  two", "tab": "\tone", "trailing": "a\\", "backslash": `C:\new\u0041`, "dollar": "$1 ${A} $$", "lines": "a\n b\r\n", "quotes": `'"` + "`",
	"comment": "# no ! comment", "equals": "a=b:c", "chinese": "您好", "emoji": "😀 and \\U0001f600 and \\\\U0001f600😀", "key with = : blank": "x", "#hash": "y", `back\slash`: "z", "template": "{{ .Release.Name }} @port@ @mysqlUrl@",
	"true": "true", "number": "007", "list[0].name": "a", "spring.datasource.username": "me", "server.port": "1",
}

// with is values with settings.
func with(t *testing.T, values string, settings map[string]string) string {
	t.Helper()
	v := parsed(t, values)
	v["config"] = settings
	text, err := yaml.Marshal(v)
	assert.NilError(t, err)
	return string(text)
}

func TestSettingsInProperties(t *testing.T) {
	t.Parallel()
	for chart, base := range anywhere {
		if chart == component.ChartMySQL {
			continue
		}
		found := made(t, chart, with(t, base+"}", awkward))
		var text string
		for id, object := range found {
			if data, ok := at(object, "data", "application.properties").(string); ok && !strings.HasSuffix(id, "-files") {
				text = data
			}
		}
		assert.DeepEqual(t, properties(t, text), awkward)
		mount := named(found.container(t)["volumeMounts"], "configs")
		assert.DeepEqual(t, mount, map[string]any{"name": "configs", "mountPath": "/config/application.properties", "subPath": "application.properties", "readOnly": true})
	}

	auth := "{service: auth, " + platform + "}"
	before := at(made(t, component.ChartMicroservice, auth)["ConfigMap/auth"], "data", "application.properties").(string)
	after := at(made(t, component.ChartMicroservice, with(t, auth, awkward))["ConfigMap/auth"], "data", "application.properties").(string)
	want := properties(t, before)
	assert.Assert(t, len(want) > 30)
	maps.Copy(want, awkward)
	assert.DeepEqual(t, properties(t, after), want)
	lines := strings.Split(before, "\n")
	at := slices.Index(lines, "server.port=9081")
	assert.Equal(t, strings.Split(after, "\n")[at], "server.port=1", "in its place")
}

func TestSettingsInYAML(t *testing.T) {
	t.Parallel()
	proxy := "{service: proxy, " + platform + "}"
	read := func(values string) map[string]any {
		return parsed(t, at(made(t, component.ChartMicroservice, values)["ConfigMap/proxy"], "data", "application.yml").(string))
	}
	want := read(proxy)
	assert.Equal(t, at(want, "server", "port"), float64(9094))
	got := read(with(t, proxy, map[string]string{
		"server.servlet.context-path": "/api", "zuul.routes.reports": "/reports/**", "jwt.token.expiration.unit": "ms", "hystrix": "off", "new.a.b": "1", "text": awkward["lines"] + awkward["template"],
	}))
	server := want["server"].(map[string]any)
	server["servlet"] = map[string]any{"context-path": "/api"}
	at(want, "zuul", "routes").(map[string]any)["reports"] = "/reports/**"
	at(want, "jwt", "token").(map[string]any)["expiration"] = map[string]any{"unit": "ms"}
	want["hystrix"] = "off"
	want["new"] = map[string]any{"a": map[string]any{"b": "1"}}
	want["text"] = awkward["lines"] + awkward["template"]
	assert.DeepEqual(t, got, want)
}

func TestSettingsInJavaScript(t *testing.T) {
	t.Parallel()
	read := func(values string) string {
		return at(made(t, component.ChartMicroservice, values)["ConfigMap/web"], "data", "app.config.js").(string)
	}
	before := read("{service: web}")
	after := read("{service: web, config: {UI_LOGO_TITLE: \"a'b\\\"\\n</script>\", B: 'true', C: '-1.50', D: '007', E: '1e3', F: 'null', A: ''}}")
	added, ok := strings.CutPrefix(after, before)
	assert.Assert(t, ok)
	assert.Equal(t, added, `Object.assign(window.HAIER_APP_CONFIG, {"A": "", "B": true, "C": -1.50, "D": "007", "E": "1e3", "F": "null", "UI_LOGO_TITLE": "a'b\"\n\u003c/script\u003e"});`+"\n")
}

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
		"options":                 {"mysqld", "[client]\n", map[string]any{"b": "1 # 2", "a": ""}, "[client]\n\n[mysqld]\na\nb = 1 # 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, formatted(t, test.format, test.text, test.settings), test.want)
		})
	}
}

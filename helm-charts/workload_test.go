// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

// flow is a value as JSON, to compare with.
func flow(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	assert.NilError(t, err)
	return string(text)
}

// What values mean that the operator never gives: it refuses such fields, or gives others. All else of workloads,
// Services, autoscalers, budgets and network policies is golden in test/fields.
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
		"no policy":                 {"networkPolicy: {from: [a], open: true}", "NetworkPolicy", nil, `null`},
		"a published port, and callers": {"ports: [{name: a, port: 9}], ingress: {host: a.b}, networkPolicy: {enabled: true, from: [b, a, b]}", "NetworkPolicy", []any{"ingress"},
			`[{"ports":[{"port":8080,"protocol":"TCP"}]},{"from":[{"podSelector":{"matchExpressions":[{"key":"app.kubernetes.io/name","operator":"In","values":["a","b"]}],` +
				`"matchLabels":{"app.kubernetes.io/instance":"release"}}}],"ports":[{"port":9,"protocol":"TCP"}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := made(t, component.ChartMicroservice, own+test.values+"}")
			assert.Equal(t, flow(t, at(found[test.object+"/own"]["spec"], test.path...)), test.want)
		})
	}
	for values, want := range map[string]string{
		own + "ports: [{name: a, port: 1, nodePort: 30000}], serviceType: ClusterIP}": "a nodePort needs a serviceType",
		own + "ports: [{name: a, port: 1, nodePort: 30000}], serviceType: Headless}":  "a nodePort needs a serviceType",
		"{name: own, image: a, ingress: {host: a}}":                                   "ingress needs a port",
	} {
		assert.Assert(t, strings.Contains(refused(t, component.ChartMicroservice, values), want))
	}
}

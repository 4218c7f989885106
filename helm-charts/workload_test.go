// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// ports are a Service's as name port>target/protocol@nodePort, and a container's as name port/protocol.
func ports(list any) string {
	var found []string
	for _, port := range items(list) {
		text := fmt.Sprint(port["name"], " ")
		if number, ok := port["containerPort"]; ok {
			text += fmt.Sprint(number)
		} else {
			text += fmt.Sprint(port["port"], ">", port["targetPort"])
		}
		text += fmt.Sprint("/", port["protocol"])
		if port["nodePort"] != nil {
			text += fmt.Sprint("@", port["nodePort"])
		}
		found = append(found, text)
	}
	return strings.Join(found, ", ")
}

func TestPorts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ values, kind, service, container string }{
		"one":                   {own + "}", "ClusterIP", "http 8080>8080/TCP", "http 8080/TCP"},
		"on the nodes":          {own + "nodePort: 30000}", "NodePort", "http 8080>8080/TCP@30000", "http 8080/TCP"},
		"more":                  {own + "ports: [{name: a, port: 1, protocol: UDP}, {name: b, port: 2, nodePort: 30002}]}", "NodePort", "http 8080>8080/TCP, a 1>1/UDP, b 2>2/TCP@30002", "http 8080/TCP, a 1/UDP, b 2/TCP"},
		"another name":          {own + "nodePort: 30000, ports: [{name: a, port: 1}, {name: web, port: 8080, targetPort: 80}]}", "NodePort", "web 8080>80/TCP@30000, a 1>1/TCP", "web 80/TCP, a 1/TCP"},
		"its own node port":     {own + "nodePort: 30000, ports: [{name: web, port: 8080, nodePort: 30001}]}", "NodePort", "web 8080>8080/TCP@30001", "web 8080/TCP"},
		"another protocol":      {own + "ports: [{name: a, port: 8080, protocol: UDP}]}", "ClusterIP", "http 8080>8080/TCP, a 8080>8080/UDP", "http 8080/TCP, a 8080/UDP"},
		"of a sidecar":          {own + "ports: [{name: a, port: 1, targetPort: logs}]}", "ClusterIP", "http 8080>8080/TCP, a 1>logs/TCP", "http 8080/TCP"},
		"one for two":           {own + "ports: [{name: a, port: 1, targetPort: 8080}]}", "ClusterIP", "http 8080>8080/TCP, a 1>8080/TCP", "http 8080/TCP"},
		"a number as text":      {own + "ports: [{name: a, port: 1, targetPort: '2'}]}", "ClusterIP", "http 8080>8080/TCP, a 1>2/TCP", "http 8080/TCP, a 2/TCP"},
		"only others":           {"{name: own, image: a, nodePort: 30000, ports: [{name: a, port: 1}, {name: b, port: 2}]}", "NodePort", "a 1>1/TCP@30000, b 2>2/TCP", "a 1/TCP, b 2/TCP"},
		"balanced":              {own + "serviceType: LoadBalancer}", "LoadBalancer", "http 8080>8080/TCP", "http 8080/TCP"},
		"headless":              {own + "serviceType: Headless}", "ClusterIP None", "http 8080>8080/TCP", "http 8080/TCP"},
		"on the nodes, chosen":  {own + "serviceType: NodePort}", "NodePort", "http 8080>8080/TCP", "http 8080/TCP"},
		"balanced on the nodes": {own + "serviceType: LoadBalancer, nodePort: 30000}", "LoadBalancer", "http 8080>8080/TCP@30000", "http 8080/TCP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := made(t, component.ChartMicroservice, test.values)
			spec := found["Service/own"]["spec"]
			kind := fmt.Sprint(at(spec, "type"))
			if address := at(spec, "clusterIP"); address != nil {
				kind += fmt.Sprint(" ", address)
			}
			assert.Equal(t, kind, test.kind)
			assert.Equal(t, ports(at(spec, "ports")), test.service)
			assert.Equal(t, ports(found.container(t)["ports"]), test.container)
		})
	}
	found := made(t, component.ChartMicroservice, "{name: own, image: a}")
	assert.Assert(t, found["Service/own"] == nil && found.container(t)["ports"] == nil && found["Deployment/own"] != nil)
	for _, kind := range []string{"ClusterIP", "Headless"} {
		assert.Assert(t, strings.Contains(refused(t, component.ChartMicroservice, own+"ports: [{name: a, port: 1, nodePort: 30000}], serviceType: "+kind+"}"), "a nodePort needs a serviceType"))
	}
	assert.Assert(t, strings.Contains(refused(t, component.ChartMicroservice, "{name: own, image: a, ingress: {host: a}}"), "ingress needs a port"))
}

// Ports below 1024 are open to a server that is not root.
func TestLowPorts(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		own + "}": false, "{name: a, image: b, port: 80}": true, "{name: a, image: b, port: 80, ports: [{name: a, port: 80, targetPort: 8080}]}": false,
		own + "ports: [{name: a, port: 53, protocol: UDP}]}": true, own + "ports: [{name: a, port: 53, targetPort: dns}]}": false,
	} {
		got := at(made(t, component.ChartMicroservice, values).pod(t), "spec", "securityContext", "sysctls")
		assert.Equal(t, got != nil, want, values)
	}
}

func TestRollouts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, values, want string }{
		"by default":              {"Deployment", "", `{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}`},
		"one less":                {"Deployment", "rollingUpdate: {maxUnavailable: 1}", `{"rollingUpdate":{"maxSurge":1,"maxUnavailable":1},"type":"RollingUpdate"}`},
		"more":                    {"Deployment", "rollingUpdate: {maxSurge: 25%}", `{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":0},"type":"RollingUpdate"}`},
		"both":                    {"Deployment", "rollingUpdate: {maxSurge: 0, maxUnavailable: 50%}", `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"50%"},"type":"RollingUpdate"}`},
		"none more":               {"Deployment", "rollingUpdate: {maxSurge: 0}", `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}`},
		"all at once":             {"Deployment", "strategy: Recreate", `{"type":"Recreate"}`},
		"a DaemonSet":             {"DaemonSet", "", `{}`},
		"a DaemonSet, more":       {"DaemonSet", "rollingUpdate: {maxSurge: 1}", `{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}`},
		"a DaemonSet, less":       {"DaemonSet", "rollingUpdate: {maxUnavailable: 50%}", `{"rollingUpdate":{"maxUnavailable":"50%"},"type":"RollingUpdate"}`},
		"a StatefulSet":           {"StatefulSet", "rollingUpdate: {maxUnavailable: 1}", `{}`},
		"a StatefulSet, all gone": {"StatefulSet", "strategy: Recreate", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := made(t, component.ChartMicroservice, own+"kind: "+test.kind+", "+test.values+"}")[test.kind+"/own"]["spec"]
			field := "updateStrategy"
			if test.kind == "Deployment" {
				field = "strategy"
			}
			assert.Equal(t, flow(t, at(spec, field)), test.want)
		})
	}
	spec := func(values string) any {
		return made(t, component.ChartMicroservice, own+values+"}")["Deployment/own"]["spec"]
	}
	assert.Equal(t, at(spec(""), "minReadySeconds"), nil)
	assert.Equal(t, at(spec(""), "progressDeadlineSeconds"), int64(600))
	assert.Equal(t, at(spec("minReadySeconds: 700"), "minReadySeconds"), int64(700))
	assert.Equal(t, at(spec("minReadySeconds: 700"), "progressDeadlineSeconds"), int64(1300), "it must be the greater one")
	assert.Equal(t, at(spec("progressDeadlineSeconds: 60"), "progressDeadlineSeconds"), int64(60))
}

func TestNumbersOfPods(t *testing.T) {
	t.Parallel()
	const budgetOfOne = `{"maxUnavailable":1`
	for name, test := range map[string]struct {
		kind, values string
		replicas     any
		aims         string // of the autoscaler; empty for none
		budget       string // its beginning; empty for none
	}{
		"one":                   {"Deployment", "", int64(1), "", ""},
		"none":                  {"Deployment", "replicas: 0", int64(0), "", ""},
		"several":               {"StatefulSet", "replicas: 2", int64(2), "", budgetOfOne},
		"on every node":         {"DaemonSet", "replicas: 2", nil, "", ""},
		"no budget":             {"Deployment", "replicas: 2, disruptionBudget: {disabled: true, minAvailable: 1}", int64(2), "", ""},
		"a part of them":        {"Deployment", "replicas: 2, disruptionBudget: {disabled: false, minAvailable: 50%}", int64(2), "", `{"minAvailable":"50%"`},
		"all may go":            {"Deployment", "replicas: 2, disruptionBudget: {maxUnavailable: 100%}", int64(2), "", `{"maxUnavailable":"100%"`},
		"none need stay":        {"Deployment", "replicas: 2, disruptionBudget: {minAvailable: 0}", int64(2), "", `{"minAvailable":0`},
		"somebody else's":       {"Deployment", "replicas: null", nil, "", ""},
		"scaled":                {"Deployment", "replicas: null, autoscaling: {max: 3}", nil, "1-3 cpu 80", ""},
		"scaled, with a number": {"StatefulSet", "replicas: 7, autoscaling: {min: 1, max: 3, cpu: 50}", nil, "1-3 cpu 50", ""},
		"scaled from two":       {"StatefulSet", "autoscaling: {min: 2, max: 3, memory: 70}", nil, "2-3 memory 70", budgetOfOne},
		"scaled by both":        {"Deployment", "autoscaling: {max: 2, memory: 70, cpu: 60}", nil, "1-2 cpu 60 memory 70", ""},
		"not scaled":            {"DaemonSet", "autoscaling: {min: 2, max: 3}", nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := made(t, component.ChartMicroservice, own+"kind: "+test.kind+", "+test.values+"}")
			assert.Equal(t, at(found[test.kind+"/own"], "spec", "replicas"), test.replicas)
			aims := ""
			if scaler := found["HorizontalPodAutoscaler/own"]; scaler != nil {
				assert.Equal(t, flow(t, at(scaler, "spec", "scaleTargetRef")), `{"apiVersion":"apps/v1","kind":"`+test.kind+`","name":"own"}`)
				aims = fmt.Sprint(at(scaler, "spec", "minReplicas"), "-", at(scaler, "spec", "maxReplicas"))
				for _, metric := range items(at(scaler, "spec", "metrics")) {
					aims += fmt.Sprint(" ", at(metric, "resource", "name"), " ", at(metric, "resource", "target", "averageUtilization"))
				}
			}
			assert.Equal(t, aims, test.aims)
			budget, ok := found["PodDisruptionBudget/own"]
			assert.Equal(t, ok, test.budget != "")
			if ok {
				text := flow(t, budget["spec"])
				assert.Assert(t, strings.HasPrefix(text, test.budget+`,"selector"`), text)
			}
		})
	}
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	callers := func(names string) string {
		return `{"podSelector":{"matchExpressions":[{"key":"app.kubernetes.io/name","operator":"In","values":[` + names + `]}],"matchLabels":{"app.kubernetes.io/instance":"release"}}}`
	}
	const eight, peer = `"ports":[{"port":8080,"protocol":"TCP"}]`, `{"namespaceSelector":{"matchLabels":{"a":"b"}}}`
	for name, test := range map[string]struct{ chart, values, want string }{
		"nobody":            {component.ChartMicroservice, own + "networkPolicy: {enabled: true}}", `null`},
		"callers":           {component.ChartMicroservice, own + "networkPolicy: {enabled: true, from: [b, a, b]}}", `[{"from":[` + callers(`"a","b"`) + `],` + eight + `}]`},
		"others":            {component.ChartMicroservice, own + "networkPolicy: {enabled: true, allowFrom: [{namespaceSelector: {matchLabels: {a: b}}}]}}", `[{"from":[` + peer + `],` + eight + `}]`},
		"both":              {component.ChartMicroservice, own + "networkPolicy: {enabled: true, from: [a], allowFrom: [{namespaceSelector: {matchLabels: {a: b}}}]}}", `[{"from":[` + callers(`"a"`) + `,` + peer + `],` + eight + `}]`},
		"everybody":         {component.ChartMicroservice, own + "networkPolicy: {enabled: true, open: true, from: [a]}}", `[{` + eight + `}]`},
		"an ingress":        {component.ChartMicroservice, own + "ports: [{name: a, port: 9}], ingress: {host: a.b}, networkPolicy: {enabled: true, from: [a]}}", `[{` + eight + `},{"from":[{"podSelector":{"matchExpressions":[{"key":"app.kubernetes.io/name","operator":"In","values":["a"]}],"matchLabels":{"app.kubernetes.io/instance":"release"}}}],"ports":[{"port":9,"protocol":"TCP"}]}]`},
		"an ingress, alone": {component.ChartMicroservice, own + "ports: [{name: a, port: 9}], ingress: {host: a.b}, networkPolicy: {enabled: true}}", `[{` + eight + `}]`},
		"no port":           {component.ChartMicroservice, "{name: own, image: a, networkPolicy: {enabled: true, open: true, from: [a]}}", `null`},
		"container ports":   {component.ChartMicroservice, own + "ports: [{name: a, port: 1, targetPort: 8080}, {name: b, port: 2, targetPort: 3, protocol: UDP}, {name: c, port: 4, targetPort: logs}], networkPolicy: {enabled: true, open: true}}", `[{"ports":[{"port":8080,"protocol":"TCP"},{"port":3,"protocol":"UDP"},{"port":"logs","protocol":"TCP"}]}]`},
		"mysql":             {component.ChartMySQL, "{name: own, networkPolicy: {enabled: true, from: [a]}}", `[{"from":[` + callers(`"a"`) + `],"ports":[{"port":3306,"protocol":"TCP"}]}]`},
		"a registry":        {component.ChartEureka, "{name: own, networkPolicy: {enabled: true}}", `null`},
		"several of them":   {component.ChartEureka, "{name: own, kind: StatefulSet, replicas: 2, networkPolicy: {enabled: true, from: [a]}}", `[{"from":[` + callers(`"a","eureka"`) + `],"ports":[{"port":8761,"protocol":"TCP"}]}]`},
		"that do not talk":  {component.ChartEureka, "{name: own, replicas: 2, networkPolicy: {enabled: true}}", `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := made(t, test.chart, test.values)["NetworkPolicy/own"]
			assert.Equal(t, flow(t, at(policy, "spec", "ingress")), test.want)
			assert.Equal(t, flow(t, at(policy, "spec", "policyTypes")), `["Ingress"]`)
			assert.Equal(t, len(at(policy, "spec", "podSelector", "matchLabels").(map[string]any)), 2)
		})
	}
	assert.Assert(t, made(t, component.ChartMicroservice, own+"networkPolicy: {from: [a], open: true}}")["NetworkPolicy/own"] == nil)
}

func TestPeersOfTheRegistry(t *testing.T) {
	t.Parallel()
	found := made(t, component.ChartEureka, "{name: registry, kind: StatefulSet, replicas: 2, port: 1234, nodePort: 30000}")
	assert.Equal(t, at(found["StatefulSet/registry"], "spec", "serviceName"), "registry-peers")
	assert.Equal(t, flow(t, found["Service/registry-peers"]["spec"]), `{"clusterIP":"None","ports":[{"name":"http","port":1234,"protocol":"TCP","targetPort":1234}],"publishNotReadyAddresses":true,`+
		`"selector":{"app.kubernetes.io/instance":"release","app.kubernetes.io/name":"eureka"},"type":"ClusterIP"}`)
	env := items(found.container(t)["env"])
	assert.Equal(t, flow(t, env[0]), `{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}`)
	for name, want := range map[string]string{
		"EUREKA_CLIENT_SERVICEURL_DEFAULTZONE": "http://registry-0.registry-peers.data.svc:1234/eureka,http://registry-1.registry-peers.data.svc:1234/eureka",
		"EUREKA_CLIENT_REGISTERWITHEUREKA":     "true", "EUREKA_CLIENT_FETCHREGISTRY": "true", "EUREKA_INSTANCE_HOSTNAME": "$(POD_NAME).registry-peers.data.svc",
	} {
		assert.Equal(t, named(found.container(t)["env"], name)["value"], want)
	}

	// Whoever gives the name of the pod, it comes before what refers to it.
	env = items(made(t, component.ChartEureka, "{kind: StatefulSet, replicas: 2, env: {A: b, EUREKA_INSTANCE_HOSTNAME: mine}, envs: [{name: POD_NAME, value: theirs}]}").container(t)["env"])
	assert.Equal(t, flow(t, env[0]), `{"name":"POD_NAME","value":"theirs"}`)
	assert.Equal(t, len(slices.DeleteFunc(slices.Clone(env), func(v map[string]any) bool { return v["name"] != "POD_NAME" })), 1)
	assert.Equal(t, env[5]["value"], "mine", flow(t, env))

	for _, alone := range []string{"{kind: StatefulSet}", "{replicas: 2}", "{kind: DaemonSet, replicas: 2}"} {
		found = made(t, component.ChartEureka, alone)
		assert.Equal(t, len(items(found.container(t)["env"])), 1, alone)
		assert.Equal(t, found["Service/eureka-peers"] != nil, strings.Contains(alone, "StatefulSet"), alone)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

var renderer = func() *render.Renderer {
	r, err := render.New("v1.29.0")
	if err != nil {
		panic(err)
	}
	return r
}()

// nothing is the input of Plan for a resource without live objects.
var nothing = reconcile.Inputs{Lookup: func(string, string) (*unstructured.Unstructured, error) { return nil, nil }}

// resourceIn parses a resource of a kind, and sets the CRD's defaults for the fields that the text leaves out.
func resourceIn[T client.Object](t *testing.T, k *Kind[T], text string, defaults map[string]any) T {
	t.Helper()
	fields, resource := map[string]any{}, k.New()
	assert.NilError(t, yaml.Unmarshal([]byte(text), &fields))
	spec := fields["spec"].(map[string]any)
	for name, value := range defaults {
		if spec[name] == nil {
			spec[name] = value
		}
	}
	if ports, ok := spec["ports"].([]any); ok {
		for _, port := range ports {
			if port := port.(map[string]any); port["protocol"] == nil {
				port["protocol"] = "TCP"
			}
		}
	}
	data, err := yaml.Marshal(fields)
	assert.NilError(t, err)
	assert.NilError(t, yaml.UnmarshalStrict(data, resource))
	resource.SetNamespace("default")
	resource.SetUID("u")
	return resource
}

// planned returns the planned objects of a resource as YAML.
func planned[T client.Object](t *testing.T, k *Kind[T], resource T) string {
	t.Helper()
	plan, err := k.Plan(resource, nothing, &Observation{})
	assert.NilError(t, err)
	var all []string
	for _, o := range plan.Parts[0].Objects {
		o = object.Unfinished(o)
		text, err := yaml.Marshal(o.Object)
		assert.NilError(t, err)
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}

func seed(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../test/testdata/seeds", name+".yaml"))
	assert.NilError(t, err)
	return string(data)
}

// The plans of sample resources, and of resources with every field, match the golden files.
func TestPlans(t *testing.T) {
	t.Parallel()
	apps, boxes, tabs := NewAppServices(renderer, nil), NewModelBoxes(renderer, nil), NewCronTabs(renderer, nil, nil, "example/agent:v1")
	box, tab := map[string]any{"minReadySeconds": 3}, map[string]any{"replicas": 1}
	for name, text := range map[string]string{
		"appservice":     planned(t, apps, resourceIn(t, apps, seed(t, "appservice"), nil)),
		"appservice-all": planned(t, apps, resourceIn(t, apps, everyApp, nil)),
		"modelbox":       planned(t, boxes, resourceIn(t, boxes, seed(t, "modelbox"), box)),
		"modelbox-all":   planned(t, boxes, resourceIn(t, boxes, everyBox, box)),
		"crontab":        planned(t, tabs, resourceIn(t, tabs, seed(t, "crontab")+"\n  command: [date]", tab)),
		"crontab-all":    planned(t, tabs, resourceIn(t, tabs, everyTab, tab)),
	} {
		golden.Assert(t, text, name+".yaml")
	}
}

const (
	everyApp = `{metadata: {name: a}, spec: {size: 0, image: "b:1", resources: {requests: {cpu: 5m}}, envs: [{name: A, value: b}, {name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}],
		ports: [{port: 80}, {name: dns, port: 53, protocol: UDP, targetPort: 5353}, {port: 53, protocol: UDP, nodePort: 30053}]}}`
	everyBox = `{metadata: {name: a}, spec: {replicas: 1, image: "b:1", minReadySeconds: 0, ports: [{port: 53, protocol: UDP}],
		readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 7}, livenessProbe: {exec: {command: ["true"]}}}}`
	everyTab = `{metadata: {name: a}, spec: {cronSpec: "0 */5 * * * MON", image: "b:1", replicas: 3, command: [c], args: [d], timeZone: Europe/Berlin, suspend: true,
		concurrencyPolicy: Replace, startingDeadlineSeconds: 5, activeDeadlineSeconds: 9, successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 2,
		resources: {limits: {memory: 1Gi}}, envs: [{name: A, value: b}]}}`
)

// If a mistake in a spec passes the schema, Plan returns a SpecError that names the field.
func TestMistakes(t *testing.T) {
	t.Parallel()
	tabs := NewCronTabs(renderer, nil, nil, "")
	for spec, message := range map[string]string{
		`cronSpec: "* * * * * *"`:                         "spec.command: is required with the schedule '* * * * * *'",
		`cronSpec: "99 99 99 99 99"`:                      "spec.cronSpec: the minute '99' is refused",
		`cronSpec: "0 3 * * 0-7"`:                         "spec.cronSpec: the day of the week '0-7' is refused",
		`cronSpec: "0 3 * * Sunday"`:                      "spec.cronSpec: the day of the week 'Sunday' is refused",
		`cronSpec: "0 3 L * *"`:                           "spec.cronSpec: the day 'L' is refused",
		`cronSpec: "*/0 * * * *"`:                         "spec.cronSpec: the minute '*/0' is refused",
		`cronSpec: "30-10 * * * * *", command: [a]`:       "spec.cronSpec: the second '30-10' is refused",
		`cronSpec: "0 0 30 2 *"`:                          "spec.cronSpec: '0 0 30 2 *' is never due",
		`cronSpec: "1 0 0 30 2 *", command: [a]`:          "spec.cronSpec: '1 0 0 30 2 *' is never due",
		`cronSpec: "* * * * *", timeZone: Europe/Nowhere`: "spec.timeZone: 'Europe/Nowhere' is not known",
	} {
		_, err := tabs.Plan(resourceIn(t, tabs, "{metadata: {name: a}, spec: {image: b, "+spec+"}}", nil), nothing, &Observation{})
		assert.ErrorContains(t, err, message, spec)
		var mistake *reconcile.SpecError
		assert.Assert(t, errors.As(err, &mistake) && mistake.Reason == reconcile.ReasonInvalidSpec, "%s: %v", spec, err)
	}
}

// If the agent's image is unknown, the part has a Doubt with the reason AgentUnknown.
func TestUnknownAgent(t *testing.T) {
	t.Parallel()
	tabs := NewCronTabs(renderer, nil, nil, "")
	plan, err := tabs.Plan(resourceIn(t, tabs, `{metadata: {name: a}, spec: {image: b, cronSpec: "* * * * * *", command: [c]}}`, nil), nothing, &Observation{})
	assert.NilError(t, err)
	assert.Equal(t, plan.Parts[0].Doubt.Culprit.Reason, "AgentUnknown")
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package halt_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, o.UnmarshalJSON(data)) // decodes whole numbers as int64
	return o
}

const halted = "annotations: {d3os-product.com.d3os/halted: '3'}"

// A halted workload resumes with its planned number of pods, or else with its former number of pods.
func TestHaltAndResume(t *testing.T) {
	t.Parallel()
	number := func(o *unstructured.Unstructured) any {
		n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
		return n
	}
	for name, c := range map[string]struct {
		planned, live string
		former        string
		resumed       any // nil: the resumed object sets no number
	}{
		"planned pods":                            {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2}}", "{kind: Deployment, metadata: {name: a}, spec: {replicas: 2}}", "2", int64(2)},
		"set by an autoscaler":                    {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {}}", "{kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}", "3", nil},
		"set by an autoscaler, and halted":        {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {}}", "{kind: Deployment, metadata: {name: a, " + halted + "}, spec: {replicas: 0}}", "3", int64(3)},
		"a new workload":                          {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {}}", "", "1", nil},
		"halted, and the plan has another number": {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 5}}", "{kind: StatefulSet, metadata: {name: a, " + halted + "}, spec: {replicas: 0}}", "3", int64(5)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned, live := parse(t, c.planned), parse(t, c.live)
			before := planned.DeepCopy()
			lookup := func(string, string) (*unstructured.Unstructured, error) { return live, nil }
			owner := object.Owner{Name: "platform", UID: "1"}
			stopped, err := halt.Switch.Halt([]*unstructured.Unstructured{planned}, lookup, owner)
			assert.NilError(t, err)
			assert.Equal(t, number(stopped[0]), int64(0))
			assert.Equal(t, stopped[0].GetAnnotations()["d3os-product.com.d3os/halted"], c.former)
			assert.Assert(t, halt.Switch.Is(stopped[0]))
			resumed, err := halt.Switch.Resume([]*unstructured.Unstructured{planned}, lookup, owner)
			assert.NilError(t, err)
			assert.Equal(t, number(resumed[0]), c.resumed)
			assert.Assert(t, !halt.Switch.Is(resumed[0]))
			assert.DeepEqual(t, planned, before)
		})
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live string
		runs bool
	}{
		"nothing":                                 {"", false},
		"a Deployment":                            {"{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1}}", true},
		"a Deployment without pods":               {"{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2}}", false},
		"a Deployment whose pods end":             {"{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2, replicas: 1}}", true},
		"not observed by its controller":          {"{kind: StatefulSet, metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 1}}", true},
		"a cron job":                              {"{kind: CronJob, spec: {}}", true},
		"a suspended cron job":                    {"{kind: CronJob, spec: {suspend: true}}", false},
		"a suspended cron job with an active run": {"{kind: CronJob, spec: {suspend: true}, status: {active: [{name: x}]}}", true},
		"a DaemonSet":                             {"{kind: DaemonSet, metadata: {generation: 1}, status: {observedGeneration: 1}}", true},
		"a halted DaemonSet":                      {"{kind: DaemonSet, metadata: {generation: 1, " + halted + "}, status: {observedGeneration: 1}}", false},
		"a halted DaemonSet whose pods end":       {"{kind: DaemonSet, metadata: {generation: 1, " + halted + "}, status: {observedGeneration: 1, currentNumberScheduled: 1}}", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, halt.MayRun(parse(t, c.live)), c.runs)
		})
	}
}

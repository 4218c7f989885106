// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"d3os.com/d3os-operator/internal/metrics"
)

// M3: a resource is in one phase, also when a phase was seen that never reached its status.
func TestOnePhaseAtATime(t *testing.T) {
	t.Parallel()
	series := metrics.SeriesOf("Probe")
	assert.Equal(t, metrics.SeriesOf("Probe"), series)
	key := types.NamespacedName{Namespace: "a", Name: "b"}
	for _, phase := range []string{"Running", "Failed", "Running"} {
		series.Set(key, phase, map[string]bool{"one": phase == "Running", phase: true})
		assert.DeepEqual(t, values(t, "probe_phase", "phase"), map[string]float64{phase: 1})
	}
	assert.DeepEqual(t, values(t, "probe_component_ready", "component"), map[string]float64{"one": 1, "Running": 1})
	series.Forget(key)
	assert.Equal(t, len(values(t, "probe_phase", "phase"))+len(values(t, "probe_component_ready", "component")), 0)
}

// values returns the values of a gauge's series by one of their labels.
func values(t *testing.T, name, label string) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	assert.NilError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if family.GetName() == name && pair.GetName() == label {
					found[pair.GetValue()] = metric.GetGauge().GetValue()
				}
			}
		}
	}
	return found
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/metrics"
)

// A scrape reports each existing resource once, and no deleted resource.
func TestSeriesAreThoseOfTheResources(t *testing.T) {
	t.Parallel()
	series := metrics.SeriesOf("Probe")
	assert.Equal(t, metrics.SeriesOf("Probe"), series)
	since := metav1.Unix(1700000000, 0)
	there := []metrics.Resource{{
		Namespace: "a", Name: "b", Phase: "Running", Generation: 3, Observed: 2, Paused: true, Step: "MoveSlots",
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "AllReady", LastTransitionTime: since},
			{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "somebody's own text", LastTransitionTime: since},
			{Type: "somebody's own", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: since},
		},
		Claims:  []string{"data-one-0"},
		Members: map[string]int{"Voter": 2, "Lost": 0},
		Backups: &metrics.Backups{LastSuccessful: time.Unix(1700000002, 0), LastVerified: time.Unix(1700000003, 0), Every: time.Hour},
		Parts:   []metrics.Part{{Name: "one", Ready: true, Pods: 2, Desired: 2}, {Name: "two", Desired: 1, Since: time.Unix(1700000001, 0), Waits: true}},
	}}
	stop := series.Show(func() []metrics.Resource { return there })
	// A second operator of this process reports the same resources.
	t.Cleanup(series.Show(func() []metrics.Resource { return there }))
	const want = `probe_phase{namespace="a",phase="Running",probe="b"} 1
probe_generation{namespace="a",probe="b"} 3
probe_observed_generation{namespace="a",probe="b"} 2
probe_paused{namespace="a",probe="b"} 1
probe_step{namespace="a",probe="b",step="MoveSlots"} 1
probe_condition{condition="Degraded",namespace="a",probe="b",reason="Other"} 0
probe_condition{condition="Ready",namespace="a",probe="b",reason="AllReady"} 1
probe_condition_since_seconds{condition="Degraded",namespace="a",probe="b"} 1.7e+09
probe_condition_since_seconds{condition="Ready",namespace="a",probe="b"} 1.7e+09
probe_component_ready{component="one",namespace="a",probe="b"} 1
probe_component_ready{component="two",namespace="a",probe="b"} 0
probe_component_since_seconds{component="two",namespace="a",probe="b"} 1.700000001e+09
probe_component_pods{component="one",namespace="a",probe="b",state="desired"} 2
probe_component_pods{component="one",namespace="a",probe="b",state="ready"} 2
probe_component_pods{component="two",namespace="a",probe="b",state="desired"} 1
probe_component_pods{component="two",namespace="a",probe="b",state="ready"} 0
probe_backup_last_timestamp_seconds{namespace="a",probe="b",what="backup"} 1.700000002e+09
probe_backup_last_timestamp_seconds{namespace="a",probe="b",what="verify"} 1.700000003e+09
probe_backup_period_seconds{namespace="a",probe="b",what="backup"} 3600
probe_volume{namespace="a",persistentvolumeclaim="data-one-0",probe="b"} 1
probe_members{namespace="a",probe="b",state="Lost"} 0
probe_members{namespace="a",probe="b",state="Voter"} 2
probe_component_waiting{component="two",namespace="a",probe="b"} 1
`
	assert.Equal(t, text(t, series), sorted(want))
	stop()
	assert.Equal(t, text(t, series), sorted(want))
	there = nil
	assert.Equal(t, text(t, series), "")
}

// Each condition that a rule or the dashboard uses has a series.
func TestConditionsOfRules(t *testing.T) {
	t.Parallel()
	var conditions []metav1.Condition
	for _, file := range []string{"rules.yaml", "dashboard.json"} {
		text, err := os.ReadFile("../../config/prometheus/" + file)
		assert.NilError(t, err)
		for _, found := range regexp.MustCompile(`condition=~?\\?"([A-Za-z|]+)`).FindAllSubmatch(text, -1) {
			for of := range strings.SplitSeq(string(found[1]), "|") {
				if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == of }) {
					conditions = append(conditions, metav1.Condition{Type: of})
				}
			}
		}
	}
	assert.Assert(t, len(conditions) > 5)
	series := metrics.SeriesOf("Asked")
	t.Cleanup(series.Show(func() []metrics.Resource {
		return []metrics.Resource{{Namespace: "a", Name: "b", Conditions: conditions}}
	}))
	shown := text(t, series)
	for _, c := range conditions {
		assert.Assert(t, strings.Contains(shown, fmt.Sprintf("condition=%q", c.Type)), c.Type)
	}
}

// text returns the result of a scrape of a collector, without help and types.
func text(t *testing.T, collector prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	assert.NilError(t, registry.Register(collector))
	families, err := registry.Gather()
	assert.NilError(t, err)
	var out strings.Builder
	for _, family := range families {
		if strings.HasSuffix(family.GetName(), "_time_to_ready_seconds") {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, pair := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			fmt.Fprintf(&out, "%s{%s} %g\n", family.GetName(), strings.Join(labels, ","), metric.GetGauge().GetValue())
		}
	}
	return sorted(out.String())
}

func sorted(lines string) string { return strings.Join(slices.Sorted(strings.Lines(lines)), "") }

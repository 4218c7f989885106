// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestCronJobsTellOfTheirLastRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ status, want string }{
		"none yet":  {"", "runs at 30 2 * * *"},
		"suspended": {"spec: {schedule: 30 2 * * *, suspend: true}", "suspended"},
		"running":   {"status: {lastScheduleTime: '2026-01-02T02:30:00Z', active: [{name: a}]}", "runs at 30 2 * * *; running since 2026-01-02 02:30 UTC"},
		"succeeded": {"status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-02T02:31:00Z'}", "runs at 30 2 * * *; last run 2026-01-02 02:30 UTC, succeeded"},
		"failed":    {"status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-01T02:31:00Z'}", "runs at 30 2 * * *; last run 2026-01-02 02:30 UTC, did not succeed: `kubectl logs job/report-29455350` says why"},
		"never succeeded, and suspended since": {"{spec: {schedule: '@daily', suspend: true}, status: {lastScheduleTime: '2026-01-02T02:30:00Z'}}",
			"suspended; last run 2026-01-02 02:30 UTC, did not succeed: `kubectl logs job/report-29455350` says why"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &unstructured.Unstructured{Object: map[string]any{}}
			assert.NilError(t, yaml.Unmarshal([]byte(test.status), &job.Object))
			if job.Object == nil {
				job.Object = map[string]any{}
			}
			job.SetAPIVersion("batch/v1")
			job.SetKind("CronJob")
			job.SetName("report")
			if job.Object["spec"] == nil {
				job.Object["spec"] = map[string]any{"schedule": "30 2 * * *"}
			}
			state := Assess([]*unstructured.Unstructured{job}, nil)
			assert.Equal(t, state.Note, test.want)
			assert.Assert(t, state.Settled)
		})
	}
}

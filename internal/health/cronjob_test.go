// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCronJobsTellOfTheirLastRun(t *testing.T) {
	t.Parallel()
	const (
		nightly = "spec: {schedule: 30 2 * * *}"
		failed  = "last run 2026-01-02 02:30 UTC, did not succeed: `kubectl logs job/report-29455350` says why"
	)
	for name, test := range map[string]struct{ content, want string }{
		"none yet":                             {nightly, "runs at 30 2 * * *"},
		"suspended":                            {"spec: {schedule: 30 2 * * *, suspend: true}", "suspended"},
		"running":                              {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', active: [{name: a}]}", "runs at 30 2 * * *; running since 2026-01-02 02:30 UTC"},
		"succeeded":                            {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-02T02:31:00Z'}", "runs at 30 2 * * *; last run 2026-01-02 02:30 UTC, succeeded"},
		"failed":                               {nightly + ", status: {lastScheduleTime: '2026-01-02T02:30:00Z', lastSuccessfulTime: '2026-01-01T02:31:00Z'}", "runs at 30 2 * * *; " + failed},
		"never succeeded, and suspended since": {"spec: {schedule: '@daily', suspend: true}, status: {lastScheduleTime: '2026-01-02T02:30:00Z'}", "suspended; " + failed},
	} {
		job := objectOf(t, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: report}, "+test.content+"}")
		state := Assess([]*unstructured.Unstructured{job}, nil)
		assert.Equal(t, state.Note, test.want, name)
		assert.Assert(t, state.Settled, name)
	}
}

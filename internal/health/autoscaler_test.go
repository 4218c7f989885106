// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// If an autoscaler has no metrics or is at its maximum, a note names the autoscaler after five minutes. The component is still settled.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	const at = `lastTransitionTime: "1970-01-01T00:01:00Z"`
	for name, c := range map[string]struct{ conditions, reason string }{
		"new":                 {"[]", ""},
		"healthy":             {`[{type: AbleToScale, status: "True", reason: ReadyForNewScale}, {type: ScalingActive, status: "True", reason: ValidMetricFound}, {type: ScalingLimited, status: "False", reason: DesiredWithinRange}]`, ""},
		"at its minimum":      {`[{type: ScalingLimited, status: "True", reason: TooFewReplicas}]`, ""},
		"scaling is disabled": {`[{type: ScalingActive, status: "False", reason: ScalingDisabled}]`, ""},
		"at its maximum":      {`[{type: ScalingActive, status: "True", reason: ValidMetricFound}, {type: ScalingLimited, status: "True", reason: TooManyReplicas, message: m, ` + at + `}]`, "TooManyReplicas"},
		"without metrics":     {`[{type: ScalingLimited, status: "True", reason: TooManyReplicas, message: other}, {type: ScalingActive, status: "False", reason: FailedGetResourceMetric, message: m, ` + at + `}]`, "FailedGetResourceMetric"},
		"cannot scale":        {`[{type: AbleToScale, status: "False", reason: FailedUpdateScale, message: m, ` + at + `}]`, "FailedUpdateScale"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := objectOf(t, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: auth}, status: {conditions: "+c.conditions+"}}")
			state := Assess([]*unstructured.Unstructured{o}, nil)
			assert.Assert(t, state.Settled)
			if c.reason == "" {
				assert.Equal(t, state.Note, Note{})
				return
			}
			const fiveMinutesLater = 60 + 300
			assert.Equal(t, state.Note, Note{Text: "HorizontalPodAutoscaler auth: " + c.reason + ": m", Culprit: Culprit{"HorizontalPodAutoscaler", "auth", c.reason, "m"}, From: fiveMinutesLater})
		})
	}
}

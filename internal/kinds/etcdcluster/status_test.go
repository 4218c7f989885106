// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
)

// The summary tells events and metrics what the status says, its conditions among that.
func TestSummary(t *testing.T) {
	t.Parallel()
	k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
	failed := kinds.Seen[World]{Generation: 1, Failure: &kinds.Failure{Reason: kinds.ReasonStepFailed, Message: "it broke"}}
	k.Status(ec, failed, metav1.NewTime(time.Unix(1000, 0)))
	s := k.Summary(ec)
	assert.Assert(t, !s.Ready)
	assert.Equal(t, s.ProblemReason+": "+s.Problem, "StepFailed: it broke")
	assert.Assert(t, meta.IsStatusConditionTrue(s.Conditions, etcdv1.ConditionDegraded))
	assert.DeepEqual(t, s.Conditions, ec.Status.Conditions)
}

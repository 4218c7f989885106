// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Services without pods wait for the database, and the database waits for the cut-over of its import. The operator requests the cut-over.
func TestDecideCutOverOfSwitch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		cutOver bool
		step    string
	}{
		"requested":           {&corev1.Pod{}, true, "CutOver"},
		"not requested":       {&corev1.Pod{}, false, ""},
		"no pod that imports": {nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := (&Kind{}).Decide(&dsv1.DataService{}, reconcile.PlanSeen{}, &Observation{
				Databases: &mysql.Databases{IsStarting: true}, Import: &mysql.Import{Declared: &dsv1.ImportFrom{CutOver: c.cutOver}, Pod: c.pod},
			})
			assert.Equal(t, len(got.Steps) > 0, c.step != "")
			for _, step := range got.Steps {
				assert.Equal(t, step.Name, c.step)
			}
			assert.Assert(t, got.LookAgain > 0)
		})
	}
}

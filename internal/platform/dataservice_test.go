// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
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

// Without the agent's image, the check of a third-party MySQL has no login. A note reports this.
func TestNoteOfACheckWithoutALogin(t *testing.T) {
	t.Parallel()
	renderer, err := render.New(plan.KubeVersion)
	assert.NilError(t, err)
	const mysql = "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://db:3306', username: u, password: p%s}}}"
	for _, test := range []struct {
		agent, spec string
		notes       int
	}{
		{"example/agent:v1", fmt.Sprintf(mysql, ""), 0},
		{object.UnknownImage, fmt.Sprintf(mysql, ""), 1},
		{"", fmt.Sprintf(mysql, ""), 1},
		{object.UnknownImage, fmt.Sprintf(mysql, ", checkCMD: 'true'"), 0},
		{object.UnknownImage, "{uuc: {thirdParty: {url: 'http://a'}}}", 0},
	} {
		s := newSleeper(t, test.spec)
		s.kind = New(plan.NewPlanner(renderer, map[string]string{"agent": test.agent}), plan.NewPreview(), nil, nil, nil)
		planned, _ := s.plan(false)
		notes := planned.Parts[0].Notes
		assert.Equal(t, len(notes), test.notes, "%+v", test)
		if test.notes > 0 {
			assert.Assert(t, is.Contains(notes[0].Text, "set RELATED_IMAGE_AGENT in the operator's Deployment"))
		}
	}
}

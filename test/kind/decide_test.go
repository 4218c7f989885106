// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
)

// Decision and status are pure functions of what was seen, so a table says it all.
func TestDecide(t *testing.T) {
	claim, formatted := mark{UID: "claim"}, mark{UID: "claim", Value: "true"}
	title, open := mark{UID: "title"}, mark{UID: "title", Value: "claim"}
	for name, c := range map[string]struct {
		applied, settled bool
		observed         world
		phase            string
		steps            []string
	}{
		"nothing is there":                      {phase: phaseCreating},
		"the pod is not ready":                  {applied: true, observed: world{claim, title}, phase: phaseCreating},
		"what is there is not the plan":         {settled: true, observed: world{claim, title}, phase: phaseCreating},
		"the cache does not show the claim yet": {applied: true, settled: true, observed: world{Title: title}, phase: phaseCreating},
		"the cache does not show the title yet": {applied: true, settled: true, observed: world{Claim: formatted}, phase: phaseCreating},
		"new":                                   {applied: true, settled: true, observed: world{claim, title}, phase: phaseWorking, steps: []string{stepFormat, stepOpen}},
		"formatted":                             {applied: true, settled: true, observed: world{formatted, title}, phase: phaseWorking, steps: []string{stepOpen}},
		"open":                                  {applied: true, settled: true, observed: world{formatted, open}, phase: phaseReady},
		"open, with another volume":             {applied: true, settled: true, observed: world{formatted, mark{UID: "title", Value: "before"}}, phase: phaseWorking, steps: []string{stepOpen}},
		"open, and the mark of the volume lost": {applied: true, settled: true, observed: world{claim, open}, phase: phaseWorking, steps: []string{stepFormat}},
	} {
		t.Run(name, func(t *testing.T) {
			kind, n, seen := &notebooks{}, &Notebook{}, kinds.Seen[world]{Observed: &c.observed}
			seen.Parts = []engine.PartSeen{{Name: part, Applied: c.applied, Health: health.State{Settled: c.settled}}}
			seen.Decision = kind.Decide(n, seen.Seen, c.observed)
			var steps []string
			for _, step := range seen.Decision.Steps {
				steps = append(steps, step.Name)
			}
			assert.DeepEqual(t, steps, c.steps)
			kind.Status(n, seen, metav1.Now())
			assert.Equal(t, n.Status.Phase, c.phase)
		})
	}
	assert.Assert(t, len((&notebooks{}).Decide(&Notebook{}, engine.Seen{}, world{}).Steps) == 0)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
)

// The decision is a pure function of what was seen, so a table says it all.
func TestDecide(t *testing.T) {
	claim, formatted := mark{UID: "claim"}, mark{UID: "claim", Value: "true"}
	title, open := mark{UID: "title"}, mark{UID: "title", Value: "claim"}
	for name, c := range map[string]struct {
		applied, settled bool
		observed         world
		steps            []string
	}{
		"nothing is there":                      {},
		"the pod is not ready":                  {applied: true, observed: world{claim, title}},
		"what is there is not the plan":         {settled: true, observed: world{claim, title}},
		"the cache does not show the claim yet": {applied: true, settled: true, observed: world{Title: title}},
		"new":                                   {applied: true, settled: true, observed: world{claim, title}, steps: []string{stepFormat, stepOpen}},
		"formatted":                             {applied: true, settled: true, observed: world{formatted, title}, steps: []string{stepOpen}},
		"open":                                  {applied: true, settled: true, observed: world{formatted, open}},
		"open, with another volume":             {applied: true, settled: true, observed: world{formatted, mark{UID: "title", Value: "before"}}, steps: []string{stepOpen}},
		"open, and the mark of the volume lost": {applied: true, settled: true, observed: world{claim, open}, steps: []string{stepFormat}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := engine.Seen{Parts: []engine.PartSeen{{Name: part, Applied: c.applied, Health: health.State{Settled: c.settled}}}}
			var steps []string
			for _, step := range (&notebooks{}).Decide(&Notebook{}, seen, c.observed).Steps {
				steps = append(steps, step.Name)
			}
			assert.DeepEqual(t, steps, c.steps)
		})
	}
	assert.Assert(t, len((&notebooks{}).Decide(&Notebook{}, engine.Seen{}, world{}).Steps) == 0)
}

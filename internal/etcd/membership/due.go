// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"
)

// due returns the first step that has not failed recently. So a step that keeps failing blocks no other step. A skipped
// step is repeated when its delay is over. For each skipped step, due adds a note, which begins with the cause of the
// failure, because the column MESSAGE is short.
func (c *cluster) due(candidates []Step) []Step {
	for _, step := range candidates {
		if step.Action == ActionWait && step.Message == "" {
			step.Message = strings.Join(c.waits, "; ")
		}
		failed := slices.IndexFunc(c.Failures, func(f Failure) bool { return f.Step == step.Key() })
		if failed < 0 {
			return []Step{step}
		}
		c.blocked("%s (tried again: %s)", c.Failures[failed].Cause, step.Message)
	}
	return nil
}

// needed wraps a rule whose steps later rules rely on. If all steps of the rule have failed recently, no later rule
// runs: only pods in which nothing runs are replaced (unblock).
func (c *cluster) needed(rule func() []Step) func() []Step {
	return func() []Step {
		steps := rule()
		if len(steps) == 0 || steps[len(steps)-1].Action == ActionWait {
			return steps
		}
		return append(append(steps, c.unblock()...), c.wait(steps[0].phase, "")...)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"d3os.com/d3os-operator/internal/apply"
)

// An upgrade prints a line for each DataService that would change.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	u := &Upgrade{Version: "0.4.0"}
	assert.Assert(t, !u.Changed())
	u.Add("b", "rests", false, &Diff{Unchanged: 40, Notes: []string{"Secrets were not compared: you may not read them"}}, nil)
	assert.Assert(t, !u.Changed())
	u.Add("b", "platform", false, &Diff{Notes: []string{"Secrets were not compared: you may not read them"}, Changes: []Change{
		{Component: "auth", Kind: "Deployment", Name: "auth", Action: apply.Updated, Pods: 3},
		{Component: "auth", Kind: "Service", Name: "auth", Action: apply.Updated},
		{Component: "web", Kind: "Deployment", Name: "web", Action: apply.Updated, Pods: 2},
	}}, nil)
	u.Add("a", "stands", true, &Diff{Changes: []Change{{Component: "mysql", Kind: "StatefulSet", Name: "mysql", Action: apply.Replaced}}}, nil)
	u.Add("a", "wrong", false, nil, errors.New("spec.auth.dependsOn: \"nobody\" is not declared"))
	u.Add("c", "newer", false, &Diff{Changes: []Change{{Kind: "Service", Name: "web", Error: "version 0.5.0 wrote it"}}}, nil)
	assert.Assert(t, u.Changed())
	golden.Assert(t, u.Text(Style{}), "upgrade.golden")
}

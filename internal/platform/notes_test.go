// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A note that requires an action is the message of a running component, its culprit, and the beginning of status.message. Notes without a
// culprit, and notes from a later time on, are not.
func TestNotesThatRequireAnAction(t *testing.T) {
	t.Parallel()
	ingress := health.Note{Text: "Ingress web: NoIngressClass: m", Culprit: health.Culprit{Kind: "Ingress", Name: "web", Reason: "NoIngressClass", Message: "m"}}
	claim := health.Note{Text: "claim", Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "data", Reason: "VolumeFull"}}
	from := func(after time.Duration) func(c *reconcile.PartSeen) {
		return func(c *reconcile.PartSeen) { c.Health.Note.From = noon.Add(after).Unix() }
	}
	for name, test := range map[string]struct {
		change             func(c *reconcile.PartSeen)
		phase              dsv1.Phase
		message, component string
		culprit            string
	}{
		"running":                {func(*reconcile.PartSeen) {}, dsv1.PhaseRunning, "web: " + ingress.Text + "; mysql->web", ingress.Text, "Ingress"},
		"none":                   {func(c *reconcile.PartSeen) { c.Health.Note = health.Note{} }, dsv1.PhaseRunning, "mysql->web", "", ""},
		"information":            {func(c *reconcile.PartSeen) { c.Health.Note = health.Info("daily") }, dsv1.PhaseRunning, "mysql->web", "daily", ""},
		"since now":              {from(0), dsv1.PhaseRunning, "web: " + ingress.Text + "; mysql->web", ingress.Text, "Ingress"},
		"later":                  {from(time.Second), dsv1.PhaseRunning, "mysql->web", "", ""},
		"with information":       {func(c *reconcile.PartSeen) { c.Notes = []health.Note{health.Info("note")} }, dsv1.PhaseRunning, "web: " + ingress.Text + "; mysql->web", ingress.Text, "Ingress"},
		"with a note on a claim": {func(c *reconcile.PartSeen) { c.Notes = []health.Note{health.Info("note"), claim} }, dsv1.PhaseRunning, "web: claim; mysql->web", "claim", "PersistentVolumeClaim"},
		"being created":          {func(c *reconcile.PartSeen) { c.Health.Settled = false }, dsv1.PhaseUpdating, "mysql->[web]", "", ""},
		"a claim, being created": {func(c *reconcile.PartSeen) { c.Health.Settled, c.Notes = false, []health.Note{claim} }, dsv1.PhaseUpdating, "web: claim; mysql->[web]", "claim", ""},
		"with a problem":         {func(c *reconcile.PartSeen) { c.Health.Settled, c.Health.Problem = false, "problem" }, dsv1.PhaseDegraded, "web: problem", "problem", ""},
		"without pods":           {func(c *reconcile.PartSeen) { c.Stopped = &reconcile.Stopped{} }, dsv1.PhaseUpdating, "mysql->web", "has no pods", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := seenOf("web", up)
			c.Health.Note = ingress
			test.change(&c)
			seen := StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("mysql", up), c}}
			status := Compute(dsv1.DataServiceStatus{}, seen, noon)
			assert.Equal(t, status.Message, test.message)
			assert.Equal(t, status.Components[1].Message, test.component)
			culprit := ""
			if found := status.Components[1].Culprit; found != nil {
				culprit = found.Kind
			}
			assert.Equal(t, culprit, test.culprit)
			if name == "later" { // another reconciliation is requested, because no event follows
				assert.Assert(t, startsSeen(&dsv1.DataService{Status: status}, seen.Components, noon.Time) > 0)
				return
			}
			assert.DeepEqual(t, Compute(status, seen, metav1.NewTime(noon.Add(time.Hour))), status) // nothing is written
			assert.Equal(t, startsSeen(&dsv1.DataService{Status: status}, seen.Components, noon.Time), time.Duration(0))
		})
	}
}

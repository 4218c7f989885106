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

// If the IngressClass of an Ingress does not exist, the message of a running component and status.message report this. All other messages of
// the component win.
func TestMissingIngressClassIsNamed(t *testing.T) {
	t.Parallel()
	ingress := health.Culprit{Kind: "Ingress", Name: "web", Reason: health.ReasonNoIngressClass, Message: "m"}
	const text = "Ingress web: NoIngressClass: m"
	for name, test := range map[string]struct {
		change             func(c *reconcile.PartSeen)
		phase              dsv1.Phase
		message, component string
	}{
		"running":           {func(*reconcile.PartSeen) {}, dsv1.PhaseRunning, "web: " + text + "; mysql->web", text},
		"the class exists":  {func(c *reconcile.PartSeen) { c.Health.Ingress = health.Culprit{} }, dsv1.PhaseRunning, "mysql->web", ""},
		"with another note": {func(c *reconcile.PartSeen) { c.Notes = []string{"note"} }, dsv1.PhaseRunning, "mysql->web", "note"},
		"being created":     {func(c *reconcile.PartSeen) { c.Health.Settled = false }, dsv1.PhaseUpdating, "mysql->[web]", ""},
		"with a problem":    {func(c *reconcile.PartSeen) { c.Health.Settled, c.Health.Problem = false, "problem" }, dsv1.PhaseDegraded, "web: problem", "problem"},
		"without pods":      {func(c *reconcile.PartSeen) { c.Stopped = &reconcile.Stopped{} }, dsv1.PhaseUpdating, "mysql->web", "has no pods"},
		"with an autoscaler": {func(c *reconcile.PartSeen) {
			c.Health.Autoscaler = health.Culprit{Kind: "HorizontalPodAutoscaler", Name: "web"}
		}, dsv1.PhaseRunning, "web: " + text + "; mysql->web", text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := seenOf("web", up)
			c.Health.Ingress = ingress
			test.change(&c)
			seen := StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("mysql", up), c}}
			status := Compute(dsv1.DataServiceStatus{}, seen, noon)
			assert.Equal(t, status.Message, test.message)
			assert.Equal(t, status.Components[1].Message, test.component)
			assert.DeepEqual(t, Compute(status, seen, metav1.NewTime(noon.Add(time.Hour))), status) // nothing is written
		})
	}
}

// status.message reports the notes that `kubectl dataservice why` reports, and no other notes.
func TestNotesThatNeedAnAction(t *testing.T) {
	t.Parallel()
	for note, want := range map[string]bool{
		"PersistentVolumeClaim data: it is nearly full":            true,
		"HorizontalPodAutoscaler web: TooManyReplicas: m":          true,
		"HTTPRoute web is left out: install the CRDs":              true,
		"Ingress web: NoIngressClass: m":                           true,
		"Ingress web: another writer keeps changing spec.rules":    false,
		"Deployment web: another writer keeps changing the number": false,
		"": false,
	} {
		assert.Equal(t, needsAction(note), want, note)
	}
}

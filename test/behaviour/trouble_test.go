// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// What does not come up from the start is named: component, pod and reason. The right value heals it, without
// help. What gets into trouble later is the concern of test/transitions.
func TestTroubleIsNamedAndPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		component string
		wrong     fields
		right     fields
		says      []string
	}{
		{"image that cannot be pulled", "auth", fields{"image": "registry.example/auth:does-not-exist"},
			fields{"image": "registry.example/auth:v2"}, []string{"auth", "pod auth-", "ImagePullBackOff", "registry.example/auth:does-not-exist"}},
		{"image of the database", "mysql", fields{"image": "registry.example/mysql:does-not-exist"},
			fields{"image": "registry.example/mysql:v2"}, []string{"mysql", "pod mysql-dataservice-0", "ImagePullBackOff"}},
		{"image of the login centre's probe", "uuc", fields{"image": "registry.example/curl:does-not-exist"},
			fields{"image": nil}, []string{"uuc", "pod uuc-probe-", "ImagePullBackOff"}},
	} {
		wrong, right := fields{c.component: c.wrong}, fields{c.component: c.right}
		t.Run(c.name, func(t *testing.T) {
			e := parallel(t)
			e.Start()
			name := e.Create(small(wrong))
			e.troubled(name, c.component, c.says)
			e.ChangeReady(name, right)
			e.untroubled(name)
		})
	}
}

// troubled waits until condition, message and component say what is wrong.
func (e *env) troubled(name, component string, says []string) {
	e.Helper()
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonComponentFailing, says...)
	e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonComponentFailing, says...)
	ds := e.DataService(name)
	if err := harness.Mentions(ds.Status.Message, says...); err != nil {
		e.Errorf("status.message: %v", err)
	}
	if ds.Status.Phase != dsv1.PhaseDegraded {
		e.Errorf("the phase is %s", ds.Status.Phase)
	}
	for _, c := range ds.Status.Components {
		switch {
		case c.Name == component:
			if err := harness.Mentions(c.Message, says[1:]...); err != nil || c.Phase != dsv1.PhaseDegraded {
				e.Errorf("status of %s: phase %s, %v", component, c.Phase, err)
			}
		case c.Phase == dsv1.PhaseDegraded || c.Phase == dsv1.PhaseFailed:
			e.Errorf("%s is %s: %s", c.Name, c.Phase, c.Message)
		}
	}
}

// untroubled expects no word of a problem in the status.
func (e *env) untroubled(name string) {
	e.Helper()
	ds := e.DataService(name)
	if err := harness.HasCondition(ds, dsv1.ConditionDegraded, metav1.ConditionFalse, dsv1.ReasonHealthy); err != nil {
		e.Error(err)
	}
	for _, c := range ds.Status.Components {
		if c.Phase != dsv1.PhaseRunning || c.Message != "" || c.Ready != c.Desired {
			e.Errorf("%s: phase %s, %d/%d, message %q", c.Name, c.Phase, c.Ready, c.Desired, c.Message)
		}
	}
}

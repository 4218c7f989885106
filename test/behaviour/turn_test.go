// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// platforms is the number of DataServices that take turns.
const platforms = 50

// charts configures an operator with another default image of Eureka, like a new version of the operator.
func charts(version string, rollouts int) func(*rest.Config, *manager.Options) {
	return func(_ *rest.Config, o *manager.Options) {
		o.Images, o.MaxRollouts = map[string]string{"eureka": "registry.example/eureka:" + version}, rollouts
	}
}

func platform(n int) string { return fmt.Sprintf("p%02d", n) }

// A new version of the operator changes two DataServices at a time. After one of them has become Degraded, the operator changes
// no further DataService. Corrections and changes of users do not wait. A new leader continues the turns.
func TestMaxRollouts(t *testing.T) {
	harness.Long(t)
	e := alone(t) // fifty platforms would slow down parallel tests
	op := e.Start(charts("v1", 0))
	for n := range platforms {
		e.Create(&unstructured.Unstructured{Object: fields{
			"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": platform(n)},
			"spec": fields{"eureka": fields{"name": "eureka-" + platform(n), "kind": "Deployment"}},
		}})
	}
	for n := range platforms {
		e.Ready(platform(n))
	}
	op.Stop()

	t.Log("a version whose pods become ready; another operator continues its rollout")
	mark := e.Mark()
	op = e.Start(charts("v2", 2))
	e.Until("some are changed", func() error { return e.changed("v2", platforms/5) })
	op.Stop()
	op = e.Start(charts("v2", 2))
	began := time.Now()
	e.inTurns("all are changed", func() error { return e.changed("v2", platforms) })
	e.Until("nobody has a turn or waits", func() error { return e.turns(0, 0) })
	t.Logf("%d platforms, two at a time: the last %s", platforms, time.Since(began).Round(time.Second))
	e.twoAtOnce(mark)
	op.Stop()

	t.Log("a version whose pods do not start")
	mark = e.Mark()
	op = e.Start(charts("does-not-exist", 2))
	e.Until("it has stopped", func() error { return e.turns(2, platforms-2) })
	e.twoAtOnce(mark)
	well := ""
	for _, ds := range harness.Every[*dsv1.DataService](e.Journal) {
		c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionOperatorChange)
		if c.Status == metav1.ConditionFalse {
			well = ds.Name
			e.condition(ds.Name, dsv1.ConditionReady, metav1.ConditionTrue, dsv1.ReasonAllReady)
		}
	}
	e.Must(suite.API.Delete(e.Ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "eureka-" + well}}))
	e.Until("what waits is healed", func() error {
		if s := harness.Lookup[*corev1.Service](e.Journal, "eureka-"+well); s == nil {
			return fmt.Errorf("Service eureka-%s is missing", well)
		}
		return nil
	})
	e.ChangeReady(well, fields{"eureka": fields{"image": "registry.example/eureka:mine"}})
	e.Until("the others wait on", func() error { return e.turns(2, platforms-3) })
	if err := e.changed("mine", 1); err != nil {
		t.Error(err)
	}
	op.Stop()

	t.Log("the next version replaces it")
	mark = e.Mark()
	e.Start(charts("v4", 2))
	e.inTurns("it goes on", func() error { return e.changed("v4", platforms/5) })
	e.twoAtOnce(mark)
}

// inTurns waits for a change that takes place in two DataServices at a time.
func (e *env) inTurns(what string, holds func() error) {
	e.Helper()
	if err := e.Within(5*time.Minute, holds); err != nil {
		e.Fatalf("%s: %v", what, err)
	}
	e.CatchUp()
}

// changed returns nil if at least `want` platforms run the image of a version.
func (e *env) changed(version string, want int) error {
	found := 0
	for _, d := range harness.Every[*appsv1.Deployment](e.Journal) {
		if d.Spec.Template.Spec.Containers[0].Image == "registry.example/eureka:"+version && d.Status.ReadyReplicas == *d.Spec.Replicas {
			found++
		}
	}
	if found < want {
		return fmt.Errorf("%d of %d run %s", found, want, version)
	}
	return nil
}

// turns returns nil if `have` platforms have a turn and `wait` platforms wait for a turn.
func (e *env) turns(have, wait int) error {
	found := map[metav1.ConditionStatus]int{}
	for _, ds := range harness.Every[*dsv1.DataService](e.Journal) {
		if c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionOperatorChange); c != nil {
			found[c.Status]++
		}
	}
	if found[metav1.ConditionTrue] != have || found[metav1.ConditionFalse] != wait {
		return fmt.Errorf("%d have a turn and %d wait, not %d and %d", found[metav1.ConditionTrue], found[metav1.ConditionFalse], have, wait)
	}
	return nil
}

// twoAtOnce fails the test unless, after a mark, at most two Deployments were incomplete at the same time, and at some time exactly two.
// twoAtOnce does not use the status that the operator writes.
func (e *env) twoAtOnce(mark int) {
	e.Helper()
	most := 0
	rolling := map[string]string{}
	for _, c := range e.Since(mark) {
		d, ok := c.Object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		s := d.Status
		if s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= *d.Spec.Replicas && s.ReadyReplicas >= *d.Spec.Replicas && s.Replicas <= *d.Spec.Replicas {
			delete(rolling, c.ID)
			continue
		}
		rolling[c.ID] = fmt.Sprintf("generation %d, observed %d, image %s, %d replicas, %d updated, %d ready", d.Generation, s.ObservedGeneration,
			d.Spec.Template.Spec.Containers[0].Image, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
		if most = max(most, len(rolling)); len(rolling) > 2 {
			e.Errorf("more than two at once: %v", rolling)
		}
	}
	if most != 2 {
		e.Errorf("%d were changed at once, not 2", most)
	}
}

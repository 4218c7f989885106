// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradeable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/operator-framework/operator-lib/conditions"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// dataService returns a reconciled DataService. The given conditions are True.
func dataService(name string, conditions ...string) dsv1.DataService {
	ds := dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: name, UID: types.UID(name), Generation: 3}}
	ds.Status.ObservedGeneration = 3
	for _, c := range conditions {
		meta.SetStatusCondition(&ds.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	return ds
}

func with(ds dsv1.DataService, change func(*dsv1.DataService)) dsv1.DataService {
	change(&ds)
	return ds
}

// world is the content of the cache.
type world struct{ items []dsv1.DataService }

func (w *world) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the reconciler only lists")
}

func (w *world) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*dsv1.DataServiceList).Items = w.items
	return nil
}

// olm is an OperatorCondition.
type olm struct {
	condition  *metav1.Condition
	err        error
	gets, sets int
}

func (o *olm) Get(context.Context) (*metav1.Condition, error) {
	o.gets++
	if o.condition == nil || o.err != nil {
		return nil, errors.New("there is none")
	}
	return o.condition, o.err
}

func (o *olm) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	o.sets++
	if o.err != nil {
		return o.err
	}
	o.condition = &metav1.Condition{Type: "Upgradeable", Status: status}
	for _, option := range options {
		option(o.condition)
	}
	return nil
}

// play runs a reconciler as its controller does, in simulated time.
type play struct {
	t *testing.T
	*reconciler
	*world
	*olm
	wake time.Time // time of the requested reconciliation; zero if none is requested
}

func playing(t *testing.T, test func(p *play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &play{t: t, world: &world{}, olm: &olm{}}
		p.restart()
		test(p)
	})
}

func (p *play) restart() { p.reconciler = newReconciler(p.world, p.olm) }

// show changes the content of the cache, and reconciles because of this change.
func (p *play) show(items ...dsv1.DataService) {
	p.t.Helper()
	p.items = items
	p.look()
}

func (p *play) look() {
	p.t.Helper()
	result, err := p.Reconcile(p.t.Context(), ctrl.Request{})
	assert.NilError(p.t, err)
	p.wake = time.Time{}
	if result.RequeueAfter > 0 {
		p.wake = time.Now().Add(result.RequeueAfter)
	}
}

// pass advances the time, and runs all requested reconciliations.
func (p *play) pass(d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); ; p.look() {
		if p.wake.IsZero() || p.wake.After(end) {
			time.Sleep(time.Until(end)) // of the virtual clock
			return
		}
		time.Sleep(time.Until(p.wake)) // of the virtual clock
	}
}

func (p *play) is(status metav1.ConditionStatus, message string, sets int) {
	p.t.Helper()
	assert.Assert(p.t, p.olm.condition != nil, "nothing was written")
	assert.Equal(p.t, p.olm.condition.Status, status)
	assert.Equal(p.t, p.olm.condition.Message, message)
	assert.Equal(p.t, p.sets, sets)
}

const idle = "no rollout of a DataService blocks an upgrade"

func TestWithoutDataServices(t *testing.T) {
	playing(t, func(p *play) {
		p.look()
		assert.Equal(t, p.sets, 0, "the condition is not True before the quiet time has passed")
		p.pass(quiet)
		p.is(metav1.ConditionTrue, idle, 1)
		p.pass(24 * time.Hour)
		p.is(metav1.ConditionTrue, idle, 1)
		assert.Equal(t, p.gets, 1)
	})
}

func TestOneRolloutAfterAnother(t *testing.T) {
	playing(t, func(p *play) {
		p.look()
		p.pass(quiet)
		a, b := dataService("a", dsv1.ConditionProgressing), dataService("b", dsv1.ConditionProgressing)
		rested := dataService("a", dsv1.ConditionReady)
		p.show(a)
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/a", 2)
		p.pass(quiet / 2)
		p.show(rested)
		p.pass(quiet / 2)
		p.show(rested, b) // the quiet time has not passed, so True was not written
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/a", 2)
		p.pass(renameEvery)
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/b", 3)
		p.show(rested) // b is deleted
		p.pass(quiet - time.Millisecond)
		assert.Equal(t, p.sets, 3)
		p.pass(time.Millisecond)
		p.is(metav1.ConditionTrue, idle, 4)
	})
}

// If many rollouts start and end, the condition is written only a few times.
func TestManyRolloutsCostLittle(t *testing.T) {
	playing(t, func(p *play) {
		for i := range 500 {
			var items []dsv1.DataService
			for j := range 20 {
				items = append(items, dataService(fmt.Sprintf("d%03d", i+j), dsv1.ConditionProgressing))
			}
			p.show(items...)
			p.pass(100 * time.Millisecond)
		}
		p.show()
		p.pass(time.Hour)
		p.is(metav1.ConditionTrue, idle, 3)
	})
}

func TestARestartSaysNothingNew(t *testing.T) {
	playing(t, func(p *play) {
		rest, rolling := dataService("a"), dataService("b", dsv1.ConditionProgressing)
		p.show(rest)
		p.pass(quiet)
		p.restart()
		p.show(rest)
		p.pass(time.Hour)
		p.is(metav1.ConditionTrue, idle, 1)
		p.show(rest, rolling)
		p.restart()
		p.show(rest, rolling)
		p.pass(time.Minute)
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/b", 2)
		p.restart()
		p.show(rest)
		p.pass(quiet)
		p.is(metav1.ConditionTrue, idle, 3)
	})
}

// A rollout that never ends blocks upgrades only for a limited time. A later rollout blocks them again.
func TestARolloutThatNeverEnds(t *testing.T) {
	playing(t, func(p *play) {
		slow := dataService("slow", dsv1.ConditionProgressing)
		p.show(slow)
		p.pass(patience + quiet - time.Millisecond)
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/slow", 1)
		p.pass(time.Millisecond)
		p.is(metav1.ConditionTrue, idle, 2)
		p.show(slow, dataService("a", dsv1.ConditionProgressing))
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/a", 3)
		p.show(slow)
		p.pass(quiet)
		p.is(metav1.ConditionTrue, idle, 4)
		p.show(dataService("slow"))
		p.show(slow)
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/slow", 5)
		p.pass(patience + quiet)
		p.is(metav1.ConditionTrue, idle, 6)
		p.pass(24 * time.Hour)
		assert.Equal(t, p.sets, 6)
	})
}

func TestOLMCannotBeReached(t *testing.T) {
	playing(t, func(p *play) {
		p.err = errors.New("no answer")
		p.items = []dsv1.DataService{dataService("a", dsv1.ConditionProgressing)}
		for range 3 {
			_, err := p.Reconcile(t.Context(), ctrl.Request{})
			assert.ErrorContains(t, err, "no answer")
		}
		p.err = nil
		p.look()
		p.is(metav1.ConditionFalse, "1 DataService is being rolled out: data/a", 4)
	})
}

func TestEventsThatMatter(t *testing.T) {
	rest, rolling := dataService("a"), dataService("a", dsv1.ConditionProgressing)
	p := startedOrEnded()
	for _, old := range []*dsv1.DataService{&rest, &rolling} {
		assert.Equal(t, p.Create(event.CreateEvent{Object: old}), old == &rolling)
		assert.Equal(t, p.Delete(event.DeleteEvent{Object: old}), old == &rolling)
		for _, now := range []*dsv1.DataService{&rest, &rolling} {
			assert.Equal(t, p.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}), old != now)
		}
	}
}

func TestInProgress(t *testing.T) {
	progressing := dataService("a", dsv1.ConditionProgressing)
	unseen := with(dataService("a"), func(ds *dsv1.DataService) { ds.Generation++ })
	for name, c := range map[string]struct {
		ds   dsv1.DataService
		want bool
	}{
		"ready":                            {dataService("a", dsv1.ConditionReady), false},
		"neither ready nor progressing":    {dataService("a"), false},
		"progressing":                      {progressing, true},
		"scaling":                          {with(progressing, func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseScaling }), false},
		"updating":                         {with(progressing, func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseUpdating }), true},
		"not reconciled yet":               {unseen, true},
		"new":                              {with(unseen, func(ds *dsv1.DataService) { ds.Status = dsv1.DataServiceStatus{} }), true},
		"progressing, but Degraded":        {dataService("a", dsv1.ConditionProgressing, dsv1.ConditionDegraded), false},
		"stalled and Degraded":             {dataService("a", dsv1.ConditionStalled, dsv1.ConditionDegraded), false},
		"changed again while Degraded":     {with(unseen, func(ds *dsv1.DataService) { ds.Status = dataService("a", dsv1.ConditionDegraded).Status }), true},
		"paused":                           {dataService("a", dsv1.ConditionPaused), false},
		"paused during a rollout":          {with(progressing, func(ds *dsv1.DataService) { ds.Spec.Paused = true }), false},
		"paused before it was reconciled":  {with(unseen, func(ds *dsv1.DataService) { ds.Spec.Paused = true }), false},
		"deleted during a rollout":         {with(progressing, func(ds *dsv1.DataService) { ds.DeletionTimestamp = &metav1.Time{} }), false},
		"deleted before it was reconciled": {with(unseen, func(ds *dsv1.DataService) { ds.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, inProgress(&c.ds), c.want) })
	}
}

func TestMessageNamesAFew(t *testing.T) {
	var names []string
	for i, want := range []string{
		"no rollout of a DataService blocks an upgrade",
		"1 DataService is being rolled out: data/a0",
		"2 DataServices are being rolled out: data/a0, data/a1",
		"3 DataServices are being rolled out: data/a0, data/a1, data/a2",
		"4 DataServices are being rolled out: data/a0, data/a1, data/a2 and 1 more",
		"5 DataServices are being rolled out: data/a0, data/a1, data/a2 and 2 more",
	} {
		c := conditionFor(names)
		assert.Equal(t, c.Message, want)
		assert.Equal(t, c.Status == metav1.ConditionTrue, i == 0)
		names = append(names, fmt.Sprintf("data/a%d", i))
	}
}

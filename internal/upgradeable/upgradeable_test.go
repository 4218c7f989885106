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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// dataService is one that the operator has looked at, with the conditions that are True.
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

// world is what the cache shows.
type world struct{ items []dsv1.DataService }

func (w *world) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nobody asks for one")
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

// play drives a reconciler as its controller does, in a time of its own.
type play struct {
	t *testing.T
	*reconciler
	*world
	*olm
	wake time.Time // when it wants to look again; zero for not at all
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

// show changes what the cache shows, which is an event.
func (p *play) show(items ...dsv1.DataService) {
	p.t.Helper()
	p.items = items
	p.look()
}

func (p *play) look() {
	p.t.Helper()
	result, err := p.Reconcile(p.t.Context(), reconcile.Request{})
	assert.NilError(p.t, err)
	p.wake = time.Time{}
	if result.RequeueAfter > 0 {
		p.wake = time.Now().Add(result.RequeueAfter)
	}
}

// pass lets time pass, with all looks that were asked for.
func (p *play) pass(d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); ; p.look() {
		if p.wake.IsZero() || p.wake.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(p.wake))
	}
}

func (p *play) is(status metav1.ConditionStatus, message string, sets int) {
	p.t.Helper()
	assert.Assert(p.t, p.olm.condition != nil, "nothing was written")
	assert.Equal(p.t, p.olm.condition.Status, status)
	assert.Equal(p.t, p.olm.condition.Message, message)
	assert.Equal(p.t, p.sets, sets)
}

const idle = "no rollout of a DataService stands in the way"

func TestWithoutDataServices(t *testing.T) {
	playing(t, func(p *play) {
		p.look()
		assert.Equal(t, p.sets, 0, "True is not said before it is known")
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
		p.show(rested, b) // no True in between
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

// However many there are and however they come and go, OLM hears of it now and then only.
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

// What never ends does not hold back an upgrade for ever, but a later rollout does so again.
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
			_, err := p.Reconcile(t.Context(), reconcile.Request{})
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

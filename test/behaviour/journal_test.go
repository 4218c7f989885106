// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// journal watches a namespace: what is there now, and all that happened, in order of arrival.
type journal struct {
	mu      sync.Mutex
	current map[string]client.Object // kind/name
	history []change
	moved   chan struct{} // closed at the next change
}

// change is one watch event.
type change struct {
	at     time.Time
	event  watch.EventType
	id     string // kind/name
	object client.Object
}

// lists are the kinds that a journal follows.
var lists = []client.ObjectList{
	&dsv1.DataServiceList{},
	&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{},
	&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
	&batchv1.CronJobList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
	&networkingv1.IngressList{}, &networkingv1.NetworkPolicyList{},
	&corev1.PodList{}, &eventsv1.EventList{},
}

func newJournal(ctx context.Context, t *testing.T, namespace string) *journal {
	t.Helper()
	j := &journal{current: map[string]client.Object{}, moved: make(chan struct{})}
	var followers sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() { cancel(); followers.Wait() })
	for _, list := range lists {
		list := list.DeepCopyObject().(client.ObjectList)
		w, err := api.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil {
			t.Fatalf("watch %T: %v", list, err)
		}
		followers.Go(func() {
			if err := j.follow(ctx, w, list, namespace); ctx.Err() == nil {
				t.Errorf("watch %T: %v", list, err)
			}
		})
	}
	return j
}

// follow records the events of a watch until the context ends. The API server ends a watch
// that lags behind; it then goes on where it was.
func (j *journal) follow(ctx context.Context, w watch.Interface, list client.ObjectList, namespace string) error {
	version := ""
	for ctx.Err() == nil {
		stop := context.AfterFunc(ctx, w.Stop)
		for event := range w.ResultChan() {
			if object, ok := event.Object.(client.Object); ok {
				version = object.GetResourceVersion()
				j.record(event.Type, object)
			} else {
				return fmt.Errorf("%v", event.Object)
			}
		}
		stop()
		var err error
		w, err = api.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (j *journal) record(event watch.EventType, object client.Object) {
	if event == watch.Bookmark {
		return
	}
	c := change{at: time.Now(), event: event, id: idOf(object), object: object}
	j.mu.Lock()
	defer j.mu.Unlock()
	if event == watch.Deleted {
		delete(j.current, c.id)
	} else {
		j.current[c.id] = object
	}
	j.history = append(j.history, c)
	close(j.moved)
	j.moved = make(chan struct{})
}

// next is closed at the next change.
func (j *journal) next() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moved
}

// since returns what happened after a mark.
func (j *journal) since(mark int) []change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.history[mark:])
}

// mark is a place in the history: now.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.history)
}

// first returns the first change after a mark that is as asked for, or nil.
func (j *journal) first(mark int, id string, is func(change) bool) *change {
	for _, c := range j.since(mark) {
		if c.id == id && is(c) {
			return &c
		}
	}
	return nil
}

// all returns what is there now, sorted by kind and name.
func (j *journal) all() []client.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []client.Object
	for _, object := range j.current {
		found = append(found, object)
	}
	slices.SortFunc(found, func(a, b client.Object) int { return strings.Compare(idOf(a), idOf(b)) })
	return found
}

// lookup returns an object of the cluster as last seen; the zero value when there is none.
func lookup[T client.Object](j *journal, name string) T {
	j.mu.Lock()
	defer j.mu.Unlock()
	var none T
	object, _ := j.current[kindOf(none)+"/"+name].(T)
	return object
}

// every returns all objects of a type.
func every[T client.Object](j *journal) []T {
	var found []T
	for _, object := range j.all() {
		if object, ok := object.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// idOf is kind and name: Deployment/auth.
func idOf(object client.Object) string { return kindOf(object) + "/" + object.GetName() }

// controlledBy tells whether an object's controller is this one.
func controlledBy(object, owner client.Object) bool {
	return metav1.IsControlledBy(object, owner)
}

// ids returns kind and name of each object.
func ids(objects []client.Object) []string {
	var found []string
	for _, object := range objects {
		found = append(found, idOf(object))
	}
	return found
}

// object returns an object as last seen, or nil.
func (j *journal) object(id string) client.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.current[id]
}

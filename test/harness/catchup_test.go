// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func service(name, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// A journal has caught up when its watch has told all that is in the API server: what is new, what has changed, what
// is gone. What has happened after that does no harm.
func TestJournalCatchesUp(t *testing.T) {
	untyped := &unstructured.UnstructuredList{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	loose := &unstructured.Unstructured{Object: map[string]any{"kind": "Service", "metadata": map[string]any{"name": "a", "resourceVersion": "20"}}}
	typed := &corev1.ServiceList{}
	for name, c := range map[string]struct {
		list client.ObjectList
		told []watch.Event // before
		then watch.Event   // what it lacks
	}{
		"untyped":       {untyped, nil, watch.Event{Type: watch.Added, Object: loose}},
		"created":       {typed, nil, watch.Event{Type: watch.Added, Object: service("a", "20")}},
		"changed":       {typed, []watch.Event{{Type: watch.Added, Object: service("a", "9")}}, watch.Event{Type: watch.Modified, Object: service("a", "20")}},
		"changed since": {typed, []watch.Event{{Type: watch.Added, Object: service("a", "9")}}, watch.Event{Type: watch.Modified, Object: service("a", "31")}},
		"deleted since": {typed, []watch.Event{{Type: watch.Added, Object: service("a", "9")}}, watch.Event{Type: watch.Deleted, Object: service("a", "32")}},
		"deleted": {typed, []watch.Event{{Type: watch.Added, Object: service("a", "20")}, {Type: watch.Added, Object: service("b", "8")}},
			watch.Event{Type: watch.Deleted, Object: service("b", "30")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := watch.NewFake()
				j, err := NewJournal(t.Context(), lagging(events), "", c.list)
				if err != nil {
					t.Fatal(err)
				}
				for _, event := range c.told {
					events.Action(event.Type, event.Object)
				}
				synctest.Wait() // until they are recorded
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := j.CatchUp(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("before the event: %v", err)
				}
				go events.Action(c.then.Type, c.then.Object)
				long, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := j.CatchUp(long); err != nil {
					t.Errorf("after the event: %v", err)
				}
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A watch that the API server ends because its cache lags is begun again where it was; one that it ends for another reason is an error.
func TestJournalWatchesAgain(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 30, current: 20", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, c := range map[string]struct {
		ends  *apierrors.StatusError
		again bool
	}{
		"the API server's cache lags":              {tooLarge, true},
		"its history does not reach back that far": {apierrors.NewResourceExpired("too old"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := watch.NewFake(), watch.NewFakeWithChanSize(1, false)
				j, err := NewJournal(t.Context(), lagging(first, second), "", &corev1.ServiceList{})
				if err != nil {
					t.Fatal(err)
				}
				first.Error(&c.ends.ErrStatus)
				first.Stop()
				second.Add(service("a", "20"))
				synctest.Wait()
				if told := j.Object("Service/a") != nil; told != c.again {
					t.Errorf("what the second watch told is known: %v", told)
				}
				if err := j.Close(); (err == nil) != c.again {
					t.Errorf("the journal ended with: %v", err)
				}
			})
		})
	}
}

// lagging is an API server at version 30 with one Service, a, of version 20, whose watches, one after the other, tell what the
// test tells.
func lagging(watches ...watch.Interface) client.WithWatch {
	return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			live := list.(*metav1.PartialObjectMetadataList)
			live.ResourceVersion = "30"
			live.Items = []metav1.PartialObjectMetadata{{ObjectMeta: service("a", "20").ObjectMeta}}
			return nil
		},
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			if len(watches) == 0 {
				return nil, ctx.Err()
			}
			next := watches[0]
			watches = watches[1:]
			return next, nil
		},
	})
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Journal watches a namespace. It stores the current objects, and all changes in the order of their arrival.
type Journal struct {
	News // raised at every change

	mu      sync.Mutex
	current map[string]client.Object // kind/name
	last    map[string]string        // kind/name: the resource version of the last change or of the deletion
	history []Change

	api       client.Client
	namespace string
	lists     []client.ObjectList
	cancel    context.CancelFunc
	followers sync.WaitGroup
	err       error // the error that ended a watch
}

// Change is one watch event.
type Change struct {
	At     time.Time
	Event  watch.EventType
	ID     string // kind/name
	Object client.Object
}

// NewJournal watches kinds, each given as an empty list, until Close.
func NewJournal(ctx context.Context, api client.WithWatch, namespace string, lists ...client.ObjectList) (*Journal, error) {
	ctx, cancel := context.WithCancel(ctx)
	j := &Journal{
		current: map[string]client.Object{}, last: map[string]string{},
		api: api, namespace: namespace, lists: lists, cancel: cancel,
	}
	for _, list := range lists {
		list := list.DeepCopyObject().(client.ObjectList)
		w, err := api.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil {
			_ = j.Close() // the error of Watch is the cause
			return nil, fmt.Errorf("watch %T: %w", list, err)
		}
		j.followers.Go(func() {
			if err := j.follow(ctx, api, w, list, namespace); ctx.Err() == nil {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.err = fmt.Errorf("watch %T: %w", list, err)
			}
		})
	}
	return j, nil
}

// Close ends the watches. It returns the error of a watch that ended earlier.
func (j *Journal) Close() error {
	j.cancel()
	j.followers.Wait()
	return j.err
}

// follow records the events of a watch until the context ends. The API server ends two kinds of watches: a watch that is too slow, and a
// watch that begins while the API server's cache is older than its storage. follow then watches again from the last version, as client-go's
// reflector does.
func (j *Journal) follow(ctx context.Context, api client.WithWatch, w watch.Interface, list client.ObjectList, namespace string) error {
	version := ""
	for ctx.Err() == nil {
		stop := context.AfterFunc(ctx, w.Stop)
		for event := range w.ResultChan() {
			if object, ok := event.Object.(client.Object); ok {
				version = object.GetResourceVersion()
				j.record(event.Type, object)
			} else if ended := apierrors.FromObject(event.Object); !apierrors.HasStatusCause(ended, metav1.CauseTypeResourceVersionTooLarge) {
				return ended
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

func (j *Journal) record(event watch.EventType, object client.Object) {
	if event == watch.Bookmark {
		return
	}
	c := Change{At: time.Now(), Event: event, ID: IDOf(object), Object: object}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[c.ID] = object.GetResourceVersion()
	if event == watch.Deleted {
		delete(j.current, c.ID)
	} else {
		j.current[c.ID] = object
	}
	j.history = append(j.history, c)
	j.Raise()
}

// Since returns the changes after a mark.
func (j *Journal) Since(mark int) []Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.history[mark:])
}

// InOrder returns the changes after a mark in the order in which the API server wrote them. Since returns them in the order of arrival,
// which differs between kinds, because each kind has a separate watch.
func (j *Journal) InOrder(mark int) []Change {
	changes := j.Since(mark)
	slices.SortStableFunc(changes, func(a, b Change) int {
		order, err := resourceversion.CompareResourceVersion(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
		if err != nil {
			return 0 // does not happen: the API server writes only versions that can be compared
		}
		return order
	})
	return changes
}

// Mark returns the current position in the history.
func (j *Journal) Mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.history)
}

// First returns an object's first change that comes after a mark and that the given function accepts, or nil.
func (j *Journal) First(mark int, id string, is func(Change) bool) *Change {
	for _, c := range j.Since(mark) {
		if c.ID == id && is(c) {
			return &c
		}
	}
	return nil
}

// All returns the current objects, sorted by kind and name.
func (j *Journal) All() []client.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []client.Object
	for _, object := range j.current {
		found = append(found, object)
	}
	slices.SortFunc(found, func(a, b client.Object) int { return strings.Compare(IDOf(a), IDOf(b)) })
	return found
}

// Object returns the last seen version of an object, or nil.
func (j *Journal) Object(id string) client.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.current[id]
}

// Lookup returns the last seen version of an object, or the zero value.
func Lookup[T client.Object](j *Journal, name string) T {
	var none T
	object, _ := j.Object(KindOf(none) + "/" + name).(T)
	return object
}

// Every returns all objects of a type.
func Every[T client.Object](j *Journal) []T {
	var found []T
	for _, object := range j.All() {
		if object, ok := object.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// KindOf returns the kind of an object. A typed object may have an empty kind field.
func KindOf(object client.Object) string {
	if obj, ok := object.(*unstructured.Unstructured); ok {
		return obj.GetKind()
	}
	return reflect.TypeOf(object).Elem().Name()
}

// IDOf returns kind and name, such as Deployment/auth.
func IDOf(object client.Object) string { return KindOf(object) + "/" + object.GetName() }

// IDs returns kind and name of each object.
func IDs(objects []client.Object) []string {
	var found []string
	for _, object := range objects {
		found = append(found, IDOf(object))
	}
	return found
}

// CatchUp waits until the journal contains all changes that the API server made before the call.
func (j *Journal) CatchUp(ctx context.Context) error {
	var all errgroup.Group
	for _, list := range j.lists {
		all.Go(func() error { return j.catchUp(ctx, list) })
	}
	return all.Wait()
}

func (j *Journal) catchUp(ctx context.Context, list client.ObjectList) error {
	gvk, err := apiutil.GVKForObject(list, j.api.Scheme())
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(gvk)
	for {
		if err = j.api.List(ctx, live, client.InNamespace(j.namespace)); err == nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond): // the test may have stopped the API server
		case <-ctx.Done():
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	for {
		next := j.Next()
		missing := j.missing(kind, live)
		if missing == "" {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("the watch of %s has not shown that %s: %w", gvk.Kind, missing, ctx.Err())
		}
	}
}

// missing describes a change that a list shows and that the journal does not contain yet: a newer version of an object, or a deletion. It
// returns "" if there is no such change.
func (j *Journal) missing(kind string, live *metav1.PartialObjectMetadataList) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	there := map[string]bool{}
	for _, object := range live.Items {
		id := kind + "/" + object.Name
		there[id] = true
		if older(j.last[id], object.ResourceVersion) {
			return fmt.Sprintf("%s has version %s: its last seen version is %q", id, object.ResourceVersion, j.last[id])
		}
	}
	for id, object := range j.current {
		if strings.HasPrefix(id, kind+"/") && !there[id] && older(object.GetResourceVersion(), live.ResourceVersion) {
			return id + " is gone"
		}
	}
	return ""
}

// older reports whether a resource version is older than another one. An empty version is the oldest.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order < 0
}

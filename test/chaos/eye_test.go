// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/oracle"
)

// kinds is what counts in a namespace.
var kinds = append([]schema.GroupVersionKind{
	dsv1.GroupVersion.WithKind(dsv1.Kind), corev1.SchemeGroupVersion.WithKind("Pod"),
}, object.Kinds...)

// eye sees all that happens in the cluster, over one watch for each kind.
type eye struct {
	cache  cache.Cache
	mu     sync.Mutex
	places map[string]*place // by namespace
}

// place is what happened in a namespace.
type place struct {
	moved  chan struct{}                 // closed at the next change
	lives  map[string]map[types.UID]bool // kind/name -> every object that had it
	rotten []string                      // what must never happen, but did
}

func newEye(ctx context.Context) (*eye, error) {
	c, err := cache.New(config, cache.Options{Scheme: api.Scheme()})
	if err != nil {
		return nil, err
	}
	e := &eye{cache: c, places: map[string]*place{}}
	for _, gvk := range kinds {
		informer, err := c.GetInformer(ctx, object.Empty(gvk), cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { e.see(nil, obj) },
			UpdateFunc: func(before, obj any) { e.see(before, obj) },
			DeleteFunc: func(obj any) {
				if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				e.see(nil, obj)
			},
		})
		if err != nil {
			return nil, err
		}
	}
	go func() { _ = c.Start(ctx) }() // it ends with the process
	if !c.WaitForCacheSync(ctx) {
		return nil, errors.New("the cluster's objects cannot be read")
	}
	return e, nil
}

func (e *eye) see(was, is any) {
	obj, ok := is.(*unstructured.Unstructured)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.place(obj.GetNamespace())
	id := obj.GetKind() + "/" + obj.GetName()
	if p.lives[id] == nil {
		p.lives[id] = map[types.UID]bool{}
	}
	p.lives[id][obj.GetUID()] = true
	if before, ok := was.(*unstructured.Unstructured); ok && rotated(before, obj) {
		p.rotten = append(p.rotten, id+": a generated value was replaced by another")
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

// rotated tells whether a generated password changed under those who use it.
func rotated(before, after *unstructured.Unstructured) bool {
	if after.GetKind() != "Secret" || before.GetUID() != after.GetUID() || after.GetLabels()["app.kubernetes.io/managed-by"] == "" {
		return false
	}
	was, _, _ := unstructured.NestedStringMap(before.Object, "data")
	is, _, _ := unstructured.NestedStringMap(after.Object, "data")
	for key, value := range was {
		if now, there := is[key]; there && !equality.Semantic.DeepEqual(now, value) {
			return true
		}
	}
	return false
}

func (e *eye) place(namespace string) *place {
	p := e.places[namespace]
	if p == nil {
		p = &place{moved: make(chan struct{}), lives: map[string]map[types.UID]bool{}}
		e.places[namespace] = p
	}
	return p
}

// next is closed at the next change in a namespace.
func (e *eye) next(namespace string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.place(namespace).moved
}

// objects returns what is in a namespace. Nobody may change it.
func (e *eye) objects(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := e.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

// state returns the state of a namespace; with history, also how many objects had each name, and
// what must not have happened.
func (e *eye) state(ctx context.Context, namespace string, history bool) (oracle.State, error) {
	objects, err := e.objects(ctx, namespace)
	if err != nil {
		return nil, err
	}
	state, err := oracle.Of(namespace, objects)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.place(namespace)
	for _, what := range p.rotten {
		state["Never/"+what] = true
	}
	if !history {
		return state, nil
	}
	for _, obj := range objects {
		if rollout := obj.GetAnnotations()[oracle.AnnotationRollout]; rollout != "" {
			state["Lives/rollouts of "+obj.GetKind()+"/"+obj.GetName()] = rollout
		}
	}
	for id, uids := range p.lives {
		if _, is := state[id]; is {
			state["Lives/"+id] = fmt.Sprint(len(uids))
		}
	}
	return state, nil
}

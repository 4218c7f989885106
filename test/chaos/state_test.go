// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness"
)

// kinds is what counts in a namespace.
var kinds = append([]schema.GroupVersionKind{
	dsv1.GroupVersion.WithKind(dsv1.Kind), corev1.SchemeGroupVersion.WithKind("Pod"),
}, object.Kinds...)

// lists are the kinds, for journals.
func lists() []client.ObjectList {
	var all []client.ObjectList
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		all = append(all, list)
	}
	return all
}

// past is what happened in a namespace.
type past struct {
	read    int                                   // how far in the journal
	lives   map[string]map[types.UID]bool         // kind/name -> every object that had it
	secrets map[string]*unstructured.Unstructured // as last seen
	rotten  []string                              // what must never happen, but did
}

// catchUp reads what has happened since the last time.
func (p *past) catchUp(j *harness.Journal) {
	changes := j.Since(p.read)
	p.read += len(changes)
	for _, c := range changes {
		obj := c.Object.(*unstructured.Unstructured)
		if p.lives[c.ID] == nil {
			p.lives[c.ID] = map[types.UID]bool{}
		}
		p.lives[c.ID][obj.GetUID()] = true
		if obj.GetKind() != "Secret" {
			continue
		}
		if before := p.secrets[c.ID]; before != nil && rotated(before, obj) {
			p.rotten = append(p.rotten, c.ID+": a generated value was replaced by another")
		}
		p.secrets[c.ID] = obj
	}
}

// rotated reports whether a generated password changed under those who use it.
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

// state returns the state of the namespace; with history, also how many objects had each name, and
// what must not have happened.
func (s *scene) state(history bool) oracle.State {
	var objects []*unstructured.Unstructured
	for _, object := range s.All() {
		objects = append(objects, object.(*unstructured.Unstructured))
	}
	state, err := oracle.Of(s.Namespace, objects)
	if err != nil {
		s.Error(err)
		return nil
	}
	s.past.catchUp(s.Journal)
	for _, what := range s.past.rotten {
		state["Never/"+what] = true
	}
	if !history {
		return state
	}
	for _, obj := range objects {
		if rollout := obj.GetAnnotations()[oracle.AnnotationRollout]; rollout != "" {
			state["Lives/rollouts of "+obj.GetKind()+"/"+obj.GetName()] = rollout
		}
	}
	for id, uids := range s.past.lives {
		if _, is := state[id]; is {
			state["Lives/"+id] = fmt.Sprint(len(uids))
		}
	}
	return state
}

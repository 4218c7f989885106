// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// heal deletes and edits objects, and expects the operator to restore them.
func heal(ctx context.Context, t *trial) error {
	if err := t.bringUp(ctx); err != nil || t.lacks != "" {
		return err
	}
	ds, err := t.dataService(ctx)
	if err != nil {
		return err
	}
	for _, kind := range []string{"ConfigMap", "Deployment", "Service"} {
		list, err := t.owned(ctx, kind, ds)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			t.logf("the example has no %s", kind)
			continue
		}
		if err := t.deleteOne(ctx, &list[0]); err != nil {
			return err
		}
		if list, err = t.owned(ctx, kind, ds); err != nil {
			return err
		}
		for _, object := range slices.Backward(list) {
			if change := edit(&object); change != nil {
				if err := t.editOne(ctx, &object, change); err != nil {
					return err
				}
				break
			}
		}
	}
	return t.ready(ctx)
}

// owned lists the DataService's objects of a kind, in the order of their names.
func (t *trial) owned(ctx context.Context, kind string, ds *dsv1.DataService) ([]unstructured.Unstructured, error) {
	group := ""
	if kind == "Deployment" {
		group = "apps"
	}
	list, err := t.list(ctx, group, kind)
	return slices.DeleteFunc(list, func(o unstructured.Unstructured) bool { return !metav1.IsControlledBy(&o, ds) }), err
}

func (t *trial) deleteOne(ctx context.Context, was *unstructured.Unstructured) error {
	if err := t.Delete(ctx, was.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return t.back(ctx, was, "deleted")
}

func (t *trial) editOne(ctx context.Context, was *unstructured.Unstructured, change []byte) error {
	edited := was.DeepCopy()
	if err := t.Patch(ctx, edited, client.RawPatch(types.JSONPatchType, change)); err != nil {
		return err
	}
	return t.back(ctx, was, "edited")
}

// back waits until the object is restored: a new object after a deletion, otherwise the same object.
func (t *trial) back(ctx context.Context, was *unstructured.Unstructured, how string) error {
	id, start := was.GetKind()+"/"+was.GetName(), time.Now()
	recreated := how == "deleted"
	err := t.until(ctx, healed, func() (problem error, err error) {
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(was.GroupVersionKind())
		err = t.Get(ctx, client.ObjectKeyFromObject(was), is)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was %s and does not come back", id, how), nil
		case err != nil:
			return nil, err
		case recreated && is.GetUID() == was.GetUID():
			return fmt.Errorf("%s was deleted and is still there: finalizers %v", id, is.GetFinalizers()), nil
		}
		if diff := cmp.Diff(declared(was, recreated), declared(is, recreated)); diff != "" {
			return fmt.Errorf("%s was %s and is not as it was (-was +is):\n%s", id, how, diff), nil
		}
		return nil, nil
	})
	if err == nil {
		t.logf("%s, %s, is as it was after %.1f s", id, how, time.Since(start).Seconds())
	}
	return err
}

// declared returns the fields of an object without those that the cluster adds. If recreated is set, it also omits the random values of a
// new object.
func declared(object *unstructured.Unstructured, recreated bool) map[string]any {
	d := object.DeepCopy().Object
	delete(d, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(d, "metadata", field)
	}
	unstructured.RemoveNestedField(d, "metadata", "annotations", "deployment.kubernetes.io/revision")
	if recreated && object.GetKind() == "Service" {
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			if ip, _, _ := unstructured.NestedString(d, "spec", "clusterIP"); ip != "None" || field == "healthCheckNodePort" {
				unstructured.RemoveNestedField(d, "spec", field)
			}
		}
	}
	return d
}

// edit returns a JSON patch of a field that the DataService declares, or nil if the object has no such field.
func edit(object *unstructured.Unstructured) []byte {
	path, value := "", any(nil)
	switch object.GetKind() {
	case "Deployment":
		path, value = "/spec/template/spec/containers/0/image", "registry.example.com/edited:v1"
	case "Service":
		if ports, _, _ := unstructured.NestedSlice(object.Object, "spec", "ports"); len(ports) > 0 {
			path, value = "/spec/ports/0/port", 64999
		}
	case "ConfigMap":
		data, _, _ := unstructured.NestedMap(object.Object, "data")
		for key := range data {
			path, value = "/data/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), "edited"
		}
	}
	if path == "" {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": path, "value": value}})
	if err != nil {
		panic(err) // the object has only strings and numbers
	}
	return patch
}

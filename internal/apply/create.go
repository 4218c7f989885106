// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// create applies an object only if there is none of its name. No object ever has resource
// version 1 (that is the empty store), so with it the API server creates a missing object and
// answers Conflict for an existing one: nothing that the cache does not show is written over.
//
// Kubernetes does not document that for a missing object. It holds from 1.29, the oldest version
// that docs/install.md names, to 1.36, which the tests run. Should a later one answer Conflict for
// a missing object as well, as it already does for a UID, the object is posted.
func (a *Applier) create(ctx context.Context, owner object.Owner, planned *unstructured.Unstructured) (Result, error) {
	const never = "1"
	if err := a.contests.admitAgain(planned); err != nil {
		return Result{}, err
	}
	for range 2 { // the first one may have met an object that went
		obj := planned.DeepCopy()
		obj.SetResourceVersion(never)
		stampTemplates(obj)
		err := a.apply(ctx, obj, nil)
		if err == nil {
			return a.created(planned, obj)
		}
		if !apierrors.IsConflict(err) {
			return Result{}, fmt.Errorf("create %s: %w", describe(planned), err)
		}
		live, err := get(ctx, a.live, planned)
		if err != nil {
			return Result{}, err
		}
		if live != nil {
			return a.found(ctx, owner, planned, live)
		}
	}
	obj, err := a.post(ctx, planned)
	if err != nil {
		return Result{}, err
	}
	return a.created(planned, obj)
}

func (a *Applier) created(planned, obj *unstructured.Unstructured) (Result, error) {
	a.contests.made(planned)
	rewrite, err := a.remember(planned, obj)
	if err != nil {
		return Result{}, err
	}
	result := a.wrote(obj, Created)
	result.Rewrite = rewrite
	return result, nil
}

// found goes on with a live object that the cache does not show.
func (a *Applier) found(ctx context.Context, owner object.Owner, planned, live *unstructured.Unstructured) (Result, error) {
	if err := checkOwner(owner, planned, live); err != nil {
		return Result{}, err
	}
	if otherValues(planned, live) {
		return Result{}, &UnseenError{Live: live}
	}
	return a.update(ctx, owner, planned, live)
}

// otherValues reports whether a Secret has another value than the planned one for any key.
func otherValues(planned, live *unstructured.Unstructured) bool {
	if planned.GetKind() != "Secret" {
		return false
	}
	want, _ := planned.Object["data"].(map[string]any)
	has, _ := live.Object["data"].(map[string]any)
	for key, value := range want {
		if there, ok := has[key]; ok && there != value {
			return true
		}
	}
	return false
}

// post creates an object without server-side apply, and then rewrites metadata.managedFields as a server-side apply would.
// An annotation marks the object in between: if the operator dies there, the next one sees the annotation and does the second step.
func (a *Applier) post(ctx context.Context, planned *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj := planned.DeepCopy()
	a.stamp(obj, nil)
	stampTemplates(obj)
	markRestoring(obj)
	if err := a.client.Create(ctx, obj, client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("create %s without server-side apply: %w", describe(planned), err)
	}
	return obj, a.finish(ctx, obj)
}

// finish turns what the field manager owns by an update or a creation into what it owns by apply,
// and takes the mark off. It is a patch, because the operator may not update every kind.
func (a *Applier) finish(ctx context.Context, obj *unstructured.Unstructured) error {
	upgraded := obj.DeepCopy()
	err := csaupgrade.UpgradeManagedFields(upgraded, sets.New(FieldManager), FieldManager)
	if err != nil {
		return fmt.Errorf("read the field managers of %s: %w", describe(obj), err)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": upgraded.GetManagedFields()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()}, // as read, or Conflict
		{"op": "remove", "path": "/metadata/annotations/" + strings.ReplaceAll(annotationRestoring, "/", "~1")},
	})
	if err != nil {
		return fmt.Errorf("restore the field manager of %s: %w", describe(obj), err)
	}
	if err := a.client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("restore the field manager of %s: %w", describe(obj), err)
	}
	return nil
}

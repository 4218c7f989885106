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

// create applies an object only if no object has its name. The request has resource version 1, which no object has. If
// an object exists, the API server answers Conflict, even if the cache does not show the object. If no object exists,
// the API server creates it. Kubernetes does not document the second behaviour. We have seen it from 1.29, the oldest
// version in docs/install.md, to 1.36, the version in the tests. If a later version answers Conflict here too, create
// uses POST.
func (a *Applier) create(ctx context.Context, owner object.Owner, planned *unstructured.Unstructured) (Result, error) {
	const never = "1"
	if err := a.contests.admitAgain(planned); err != nil {
		return Result{}, err
	}
	for range 2 { // the object that caused the first Conflict may be deleted before it is read
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
	afterReplace := a.contests.made(planned)
	rewrite, err := a.remember(planned, obj)
	if err != nil {
		return Result{}, err
	}
	result := a.wrote(obj, Created)
	result.Rewrite, result.AfterReplace = rewrite, afterReplace
	return result, nil
}

// found updates a live object that the cache does not show.
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

// post creates an object without server-side apply, and then rewrites metadata.managedFields as a server-side apply would. Between these
// two writes, an annotation marks the object. If the operator ends in between, the next operator sees the annotation and does the second
// write.
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

// finish changes the operation of the field manager's entries from Update to Apply, and removes annotationRestoring. It sends a patch,
// because the operator has no right to update some kinds.
func (a *Applier) finish(ctx context.Context, obj *unstructured.Unstructured) error {
	upgraded := obj.DeepCopy()
	err := csaupgrade.UpgradeManagedFields(upgraded, sets.New(FieldManager), FieldManager)
	if err != nil {
		return fmt.Errorf("read the field managers of %s: %w", describe(obj), err)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": upgraded.GetManagedFields()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()}, // the write fails with Conflict if the version differs
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

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

// IsCopy reports whether a resource is a copy of another one that was started, for example a restored manifest. The
// operator creates nothing for a copy, because the work was done for the original.
func IsCopy(o client.Object) bool {
	started := o.GetAnnotations()[object.AnnotationStarted]
	return started != "" && started != string(o.GetUID())
}

// CopyText returns the message for a copy. It names the user's options.
func CopyText(kind string, o client.Object) string {
	return fmt.Sprintf("a copy of the %s with UID %s, which was started before: nothing is created. To do the work again, create another %s without the annotation %s",
		kind, o.GetAnnotations()[object.AnnotationStarted], kind, object.AnnotationStarted)
}

// RecordStart writes the UID of a resource to its annotation AnnotationStarted, before the first object is created. If
// the cluster's objects are restored from a backup, the annotation is restored, unlike the status.
func RecordStart(ctx context.Context, c client.Client, o client.Object) error {
	if o.GetAnnotations()[object.AnnotationStarted] == string(o.GetUID()) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "annotations": map[string]any{object.AnnotationStarted: o.GetUID()},
	}})
	if err != nil {
		return fmt.Errorf("encode the start of %s: %w", o.GetName(), err)
	}
	target, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %s: %T is no object", o.GetName(), o)
	}
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager)); err != nil {
		return fmt.Errorf("record the start of %s: %w", o.GetName(), err)
	}
	return nil
}

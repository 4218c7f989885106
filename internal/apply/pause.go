// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// pausedDigest matches no plan. Therefore the next apply after a pause counts as an update, not as a correction of a foreign change.
const pausedDigest = "paused"

// Pause pauses a resource whose kind is in object.Resources. It changes only the field PauseField and the digest annotation. It does
// nothing if the resource is paused, is being deleted, or is not controlled by the owner. The next Apply resumes the resource.
func (a *Applier) Pause(ctx context.Context, owner object.Owner, live *unstructured.Unstructured) error {
	paused, _, _ := unstructured.NestedBool(live.Object, "spec", object.PauseField(live))
	if paused || live.GetDeletionTimestamp() != nil || !owner.Controls(live) {
		return nil
	}
	if err := a.checkWriter(live); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":         live.GetUID(), // the write fails with Conflict if the UID differs
			"annotations": map[string]any{object.AnnotationDigest: pausedDigest},
		},
		"spec": map[string]any{object.PauseField(live): true},
	})
	if err != nil {
		return fmt.Errorf("pause %s: %w", describe(live), err)
	}
	err = a.client.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("pause %s: %w", describe(live), err)
	}
	metrics.Writes.WithLabelValues(live.GetKind(), string(Updated)).Inc()
	return nil
}

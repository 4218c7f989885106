// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// preflights records the objects that have passed validation, at about 200 bytes each.
type preflights struct{ passed *lru.Cache }

type preflight struct {
	kind   string
	name   types.NamespacedName
	digest string
}

func newPreflights() *preflights { return &preflights{passed: lru.New(4096)} }

// Check validates a planned object by a dry run. It does nothing if the live object has the planned digest, or if the
// same planned object has passed before. The error comes from reading the live object, or wraps the API server's answer
// Invalid or BadRequest. Check returns nil for every other answer, and for a refusal to change an immutable field.
func (a *Applier) Check(ctx context.Context, planned *unstructured.Unstructured) error {
	live, err := a.Get(ctx, planned)
	var notServed *NotServedError
	if errors.As(err, &notServed) {
		return nil
	}
	if err != nil || live != nil && object.Digest(live) == object.Digest(planned) {
		return err
	}
	key := preflight{planned.GetKind(), client.ObjectKeyFromObject(planned), object.Digest(planned)}
	if _, passed := a.preflights.passed.Get(key); passed {
		return nil
	}
	trial := planned.DeepCopy()
	if live != nil {
		trial = keep(trial, live)
	}
	if live != nil && defaultInTheWay(planned, live) {
		unstructured.RemoveNestedField(trial.Object, "spec", "updateStrategy") // Apply handles this field of an existing object
	}
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(trial),
		client.FieldOwner(FieldManager), client.ForceOwnership, client.DryRunAll)
	if (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !immutable(err) {
		return fmt.Errorf("check %s: %w", describe(planned), err)
	}
	if err == nil {
		a.preflights.passed.Add(key, nil)
	}
	return nil
}

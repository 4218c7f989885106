// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/growth"
)

const (
	// annotationGrownTo on a claim is the size that the operator gave it because its volume was nearly full. Plans keep that size.
	annotationGrownTo = "d3os-product.com.d3os/grown-to"
	// annotationGrownFrom is the size of the volume's file system in bytes before that.
	annotationGrownFrom = "d3os-product.com.d3os/grown-from"
)

// Growable returns the state of a claim for a growth.Policy.
func Growable(claim *unstructured.Unstructured) growth.Claim {
	has, capacity := request(claim), quantity(claim, storageCapacity...)
	from, _ := strconv.ParseInt(claim.GetAnnotations()[annotationGrownFrom], 10, 64) // 0 for a malformed one: the claim may grow again
	state := growth.Claim{Request: has.Value(), Capacity: capacity.Value(), GrownFrom: from, NeedsRestart: pendingGrowth(claim) != nil}
	for _, kind := range []corev1.PersistentVolumeClaimConditionType{corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError} {
		if condition := conditionOf(claim, kind); condition != nil {
			state.Refused = fmt.Sprint(condition["message"])
		}
	}
	return state
}

// Grow raises the request of a claim to a size in bytes. from is the present size of the volume's file system. It does nothing if the claim has
// changed since it was read. A size that Kubernetes refuses is a Refusal and no error.
func (a *Applier) Grow(ctx context.Context, claim *unstructured.Unstructured, to, from int64) (grown bool, refusal *Refusal, err error) {
	want := resource.NewQuantity(to, resource.BinarySI)
	target := withSize(claim, *want, storageRequest...)
	annotations := target.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationGrownTo], annotations[annotationGrownFrom] = want.String(), strconv.FormatInt(from, 10)
	target.SetAnnotations(annotations)
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	_, refusal, err = a.patchSize(ctx, claim, target, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}),
		fmt.Sprintf("allow volume expansion in its storage class %s, or remove autoGrow", class))
	if apierrors.IsConflict(err) {
		return false, nil, nil
	}
	return refusal == nil && err == nil, refusal, err
}

// grownTo returns the size that a claim has grown to; zero for none. A size that the claim does not have is ignored.
func grownTo(claim *unstructured.Unstructured) resource.Quantity {
	size, err := resource.ParseQuantity(claim.GetAnnotations()[annotationGrownTo])
	if has := request(claim); err != nil || size.Cmp(has) > 0 {
		return resource.Quantity{}
	}
	return size
}

// grownSize returns the size of a StatefulSet's claim template, from which the claims of later pods are made: the planned one, or the largest
// that one of its claims has grown to.
func grownSize(template *unstructured.Unstructured, claims []*unstructured.Unstructured) resource.Quantity {
	size := request(template)
	for _, claim := range claims {
		size = largest(size, grownTo(claim))
	}
	return size
}

// keptSize returns the size for a claim of a StatefulSet: the planned one, or the claim's if it is larger and one of the claims has grown to at
// least that.
func keptSize(claim *unstructured.Unstructured, want, grown resource.Quantity) resource.Quantity {
	if has := request(claim); has.Cmp(want) > 0 && has.Cmp(grown) <= 0 {
		return has
	}
	return want
}

func largest(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotationGrown on a claim describes the last enlargement by the operator, as the JSON of a growth.
const annotationGrown = "d3os-product.com.d3os/grown"

// growth describes the last enlargement of a claim whose volume was nearly full.
type growth struct {
	// To is the size that the claim got. Later plans keep that size.
	To resource.Quantity `json:"to"`
	// Spec is the last size that the claim got from the spec, before the operator enlarged it.
	Spec resource.Quantity `json:"spec"`
	// FileSystem is the size in bytes of the volume's file system before the enlargement.
	FileSystem int64 `json:"fileSystem"`
}

// lastGrowth returns the last enlargement of a claim by the operator. It returns zero if there is none, or if the annotation is malformed.
func lastGrowth(claim *unstructured.Unstructured) (last growth) {
	if json.Unmarshal([]byte(claim.GetAnnotations()[annotationGrown]), &last) != nil {
		return growth{}
	}
	return last
}

// Growable returns the state of a claim as the input of a GrowthPolicy.
func Growable(claim *unstructured.Unstructured) ClaimGrowth {
	has, capacity := request(claim), quantity(claim, storageCapacity...)
	state := ClaimGrowth{Request: has.Value(), Capacity: capacity.Value(), GrownFrom: lastGrowth(claim).FileSystem, NeedsRestart: pendingGrowth(claim) != nil}
	for _, kind := range []corev1.PersistentVolumeClaimConditionType{corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError} {
		if condition := conditionOf(claim, kind); condition != nil {
			state.Refused = fmt.Sprint(condition["message"])
		}
	}
	return state
}

// Grow sets the request of a claim to a larger size in bytes. from is the present size of the volume's file system.
// Grow does nothing if the claim has changed since it was read. If Kubernetes refuses the size, Grow returns a Refusal
// and no error.
func (a *Applier) Grow(ctx context.Context, claim *unstructured.Unstructured, to, from int64) (grown bool, refusal *Refusal, err error) {
	next := growth{To: *resource.NewQuantity(to, resource.BinarySI), Spec: request(claim), FileSystem: from}
	if before := grownTo(claim); before.Cmp(next.Spec) == 0 { // the present size comes from the last growth, not from the spec
		next.Spec = lastGrowth(claim).Spec
	}
	text, err := json.Marshal(next)
	if err != nil {
		return false, nil, fmt.Errorf("describe the growth of %s: %w", describe(claim), err)
	}
	target := withSize(claim, next.To, storageRequest...)
	annotations := target.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationGrown] = string(text)
	target.SetAnnotations(annotations)
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	_, refusal, err = a.patchSize(ctx, claim, target, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}),
		fmt.Sprintf("allow volume expansion in its storage class %s, or remove autoGrow", class))
	if apierrors.IsConflict(err) {
		return false, nil, nil
	}
	return refusal == nil && err == nil, refusal, err
}

// grownTo returns the size to which the operator enlarged a claim, or zero if it did not. It also returns zero if the claim's request is
// below the size in the annotation.
func grownTo(claim *unstructured.Unstructured) resource.Quantity {
	size := lastGrowth(claim).To
	if has := request(claim); size.Cmp(has) > 0 {
		return resource.Quantity{}
	}
	return size
}

// isLowered reports whether a planned size is below the size that a claim got from the spec before the operator
// enlarged the claim: a user has lowered the size in the spec since then.
func isLowered(claim *unstructured.Unstructured, want resource.Quantity) bool {
	to := grownTo(claim)
	return !to.IsZero() && want.Cmp(lastGrowth(claim).Spec) < 0
}

// grownSize returns the size for a StatefulSet's claim template: the planned size, or the largest size to which the
// operator has enlarged one of the claims. Kubernetes creates the claims of later pods from the template.
func grownSize(template *unstructured.Unstructured, claims []*unstructured.Unstructured) resource.Quantity {
	size := request(template)
	for _, claim := range claims {
		size = largest(size, grownTo(claim))
	}
	return size
}

// keptSize returns the size for a claim of a StatefulSet. A claim that is larger than planned keeps its size if the
// operator has enlarged one of the claims to at least that size. Any other claim gets the planned size.
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

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

var (
	storageRequest = []string{"spec", "resources", "requests", "storage"}
)

// GrowVolumes expands the claims of a planned StatefulSet that are smaller than its template
// says. Kubernetes neither does that by itself nor lets the template change; the StatefulSet
// is then replaced around its running pods (see replace). Claims never shrink.
func (a *Applier) GrowVolumes(ctx context.Context, owner object.Owner, planned *unstructured.Unstructured) error {
	templates, _, _ := unstructured.NestedSlice(planned.Object, "spec", "volumeClaimTemplates")
	if len(templates) == 0 {
		return nil
	}
	claims := object.EmptyList(object.ClaimKind)
	err := a.client.List(ctx, claims, client.InNamespace(planned.GetNamespace()),
		client.MatchingFields{object.IndexOwner: owner.Key()})
	if err != nil {
		return fmt.Errorf("list the volumes of %s: %w", describe(planned), err)
	}
	for _, t := range templates {
		template := unstructured.Unstructured{Object: t.(map[string]any)}
		prefix := template.GetName() + "-" + planned.GetName() + "-"
		for i := range claims.Items {
			if claim := &claims.Items[i]; strings.HasPrefix(claim.GetName(), prefix) && smaller(claim, &template) {
				if err := a.grow(ctx, claim, request(&template)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a *Applier) grow(ctx context.Context, claim *unstructured.Unstructured, size resource.Quantity) error {
	grown := claim.DeepCopy()
	if err := unstructured.SetNestedField(grown.Object, size.String(), storageRequest...); err != nil {
		return fmt.Errorf("grow %s: %w", describe(claim), err)
	}
	if err := a.client.Patch(ctx, grown, client.MergeFrom(claim), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("grow %s to %s: %w", describe(claim), size.String(), err)
	}
	metrics.Writes.WithLabelValues(claim.GetKind(), string(Updated)).Inc()
	return nil
}

// keepGrown returns the planned object, or for a claim that is larger than planned one of the
// live size: data taken up again may lie on a volume that grew in an earlier life.
func keepGrown(planned, live *unstructured.Unstructured) *unstructured.Unstructured {
	if planned.GroupVersionKind() != object.ClaimKind || !smaller(planned, live) {
		return planned
	}
	kept := planned.DeepCopy()
	size := request(live)
	_ = unstructured.SetNestedField(kept.Object, size.String(), storageRequest...) // the path exists
	return kept
}

func smaller(a, b *unstructured.Unstructured) bool {
	size := request(a)
	return size.Cmp(request(b)) < 0
}

func request(claim *unstructured.Unstructured) resource.Quantity {
	text, _, _ := unstructured.NestedString(claim.Object, storageRequest...)
	quantity, _ := resource.ParseQuantity(text) // zero for none
	return quantity
}

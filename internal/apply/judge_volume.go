// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// Resize is a requested change of a claim's size.
type Resize struct {
	Claim    *unstructured.Unstructured
	Has, Get resource.Quantity // the present and the new size
	// Refused is the reason why the claim keeps its size; empty if the size changes.
	Refused string
}

// FitVolumes predicts the result of Applier.FitVolumes for a planned claim or StatefulSet, and the claims that would be resized. It does
// not check whether the storage class can expand volumes.
func (j *Judge) FitVolumes(planned, live *unstructured.Unstructured, claims []*unstructured.Unstructured) (*unstructured.Unstructured, []Resize) {
	switch {
	case planned.GetKind() == object.ClaimKind.Kind && live != nil:
		planned = likeVolume(planned, live)
		r := fit(live, largest(request(planned), grownTo(live)))
		if r.lower(request(planned)); r.Refused != "" {
			return withSize(planned, r.Has, storageRequest...), []Resize{r}
		}
	case planned.GetKind() == "StatefulSet":
		return fitSet(planned, live, claims)
	}
	return planned, nil
}

func fitSet(planned, live *unstructured.Unstructured, claims []*unstructured.Unstructured) (*unstructured.Unstructured, []Resize) {
	templates, _, _ := unstructured.NestedSlice(planned.Object, "spec", "volumeClaimTemplates")
	var all []Resize
	for i, t := range templates {
		template := &unstructured.Unstructured{Object: t.(map[string]any)}
		own := claimsOf(planned, template, claims)
		grown := grownSize(template, own)
		if grown.Cmp(request(template)) > 0 {
			templates[i] = withSize(template, grown, storageRequest...).Object
		}
		for _, claim := range own {
			r := fit(claim, keptSize(claim, request(template), grown))
			if r.Refused != "" {
				templates[i] = withSize(template, templateSize(live, i, r.Has), storageRequest...).Object
			}
			r.lower(request(template))
			if r.Refused != "" || r.Has.Cmp(r.Get) != 0 {
				all = append(all, r)
			}
		}
	}
	fitted := planned.DeepCopy()
	if len(templates) > 0 {
		_ = unstructured.SetNestedSlice(fitted.Object, templates, "spec", "volumeClaimTemplates") // cannot fail: the path consists of maps
	}
	return fitted, all
}

func fit(claim *unstructured.Unstructured, want resource.Quantity) Resize {
	has, capacity := request(claim), quantity(claim, storageCapacity...)
	r := Resize{Claim: claim, Has: has, Get: want}
	if want.Cmp(has) < 0 && (capacity.IsZero() || want.Cmp(capacity) <= 0) {
		r.refuse(want)
	}
	return r
}

// lower refuses a planned size if a user has lowered the size after the operator enlarged the claim (see isLowered).
func (r *Resize) lower(want resource.Quantity) {
	if isLowered(r.Claim, want) {
		r.refuse(want)
	}
}

func (r *Resize) refuse(want resource.Quantity) {
	r.Get, r.Refused = want, fmt.Sprintf("stays at %s: a volume cannot shrink to %s", r.Has.String(), want.String())
}

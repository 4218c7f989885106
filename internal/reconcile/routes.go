// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// awaitRoutes is the interval between checks for HTTPRoutes that the API server does not serve. Each check costs one discovery request.
const awaitRoutes = 30 * time.Second

// withoutUnserved returns the plan without the HTTPRoutes that the API server does not serve. A part without its route gets a note, and its
// other objects are applied: pods and Service do not need the route.
func (e *Engine) withoutUnserved(ctx context.Context, plan *Plan) *Plan {
	var left *Plan
	for i := range plan.Parts {
		for _, planned := range plan.Parts[i].Objects {
			if planned.GroupVersionKind() != object.Route {
				continue
			}
			_, err := e.applier.Get(ctx, planned)
			var missing *apply.NotServedError
			if !errors.As(err, &missing) { // the part reports all other errors
				continue
			}
			if left == nil {
				left = new(*plan)
				left.Parts = slices.Clone(plan.Parts)
			}
			part := &left.Parts[i]
			part.Objects = slices.DeleteFunc(slices.Clone(part.Objects), func(o *unstructured.Unstructured) bool { return o == planned })
			text := fmt.Sprintf("HTTPRoute %s is left out: install the CRDs of the Gateway API (the API server does not serve %s)", planned.GetName(), missing.Kind.GroupVersion())
			culprit := health.Culprit{Kind: planned.GetKind(), Name: planned.GetName(), Reason: health.ReasonNotServed}
			part.Notes = append(slices.Clone(part.Notes), health.Note{Text: text, Culprit: culprit})
			part.Revision += "-" // differs from the revision with the route, so that the missing route does not count as a deleted one
			part.lookAgain = awaitRoutes
		}
	}
	if left == nil {
		return plan
	}
	return left
}

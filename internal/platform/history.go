// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	appsv1 "k8s.io/api/apps/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
)

var _ reconcile.Historian[*dsv1.DataService] = &Kind{}

// Revision returns the revision to store for a DataService. If a DataService has no history yet, nothing is stored
// before its spec changes, so that an upgrade of the operator writes nothing.
func (*Kind) Revision(ds *dsv1.DataService) (*appsv1.ControllerRevision, int64, error) {
	h := ds.Status.History
	switch {
	case h == nil && ds.Status.ObservedGeneration == ds.Generation:
		return nil, 0, nil
	case h == nil:
		h = &dsv1.History{}
	case h.Generation == ds.Generation:
		return nil, 0, nil
	}
	revision, err := reconcile.NewRevision(plan.OwnerOf(ds), ds.Generation, h.ReadyGeneration, &ds.Spec)
	return revision, h.ReadyGeneration, err
}

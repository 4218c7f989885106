// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/controller-runtime/pkg/event"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// A status that is not what it was is looked at, though no generation changes; all else is the
// other predicates' business.
func TestAChangedStatusIsLookedAt(t *testing.T) {
	t.Parallel()
	before := &dsv1.DataService{Status: dsv1.DataServiceStatus{Phase: dsv1.PhaseRunning}}
	after := before.DeepCopy()
	after.ResourceVersion = "2"
	p := statusChanged()
	assert.Assert(t, !p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	after.Status.Phase = dsv1.PhaseDegraded
	assert.Assert(t, p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	assert.Assert(t, !p.Create(event.CreateEvent{Object: after}))
	assert.Assert(t, !p.Delete(event.DeleteEvent{Object: after}))
}

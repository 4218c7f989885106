// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The status is a subresource: it is not written with the spec, nor the spec with it.
func TestTheStatusIsASubresource(t *testing.T) {
	t.Parallel()
	ds := &DataService{Spec: DataServiceSpec{Eureka: &Middleware{}}, Status: DataServiceStatus{Phase: PhaseRunning}}
	ds.Name, ds.Namespace = "platform", newNamespace(t)
	assert.NilError(t, api.Create(t.Context(), ds))
	assert.Equal(t, ds.Status.Phase, Phase(""))
	ds.Status = DataServiceStatus{Phase: PhaseRunning, Components: []ComponentStatus{{Name: "eureka"}}}
	ds.Spec.Paused = true
	assert.NilError(t, api.Status().Update(t.Context(), ds))
	got := &DataService{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(ds), got))
	assert.Equal(t, got.Status.Phase, PhaseRunning)
	assert.Equal(t, got.Spec.Paused, false)
	assert.Equal(t, got.Generation, int64(1))
	// Zero pods ready is a fact to show, not an absence.
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "ready"))
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "desired"))
}

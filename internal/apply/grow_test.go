// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

const gi = 1 << 30

// If the operator has enlarged a volume, and the plan has a smaller size, the volume keeps its size. The claims of
// later pods begin with the enlarged size. Existing claims of other pods do not change. A larger planned size is
// applied.
func TestGrow(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, true, "")
	set := p.sized("10Gi", databaseSet)
	claim, other := claimOf(t, set, "data-mysql-dataservice-0"), claimOf(t, set, "data-mysql-dataservice-1")
	has := func(claim *unstructured.Unstructured) any { return field(t, fetch(t, claim), storageRequest...) }
	p.writes()
	grown, refusal, err := p.Grow(t.Context(), claim, 12*gi, 10*gi-1)
	assert.NilError(t, err)
	assert.Assert(t, grown && refusal == nil)
	assert.DeepEqual(t, p.writes(), []string{"PATCH persistentvolumeclaims/data-mysql-dataservice-0"})
	live := fetch(t, claim)
	await(t, live)
	assert.DeepEqual(t, Growable(live), ClaimGrowth{Request: 12 * gi, GrownFrom: 10*gi - 1})

	grown, refusal, err = p.Grow(t.Context(), claim, 14*gi, 10*gi)
	assert.NilError(t, err)
	assert.Assert(t, !grown && refusal == nil, "the claim has changed since it was read")
	p.writes()

	keeps := func(size, template string) {
		t.Helper()
		planned := p.sized(size, databaseSet)
		fitted, live, refused := p.fit(planned)
		assert.Equal(t, len(refused), 0)
		judged, resizes := NewJudge(ownTypes, ownVersion).FitVolumes(planned, live, []*unstructured.Unstructured{fetch(t, claim), fetch(t, other)})
		assert.Equal(t, len(resizes), 0)
		for _, o := range []*unstructured.Unstructured{fitted, judged} {
			assert.Equal(t, field(t, &unstructured.Unstructured{Object: items(o.Object, "spec", "volumeClaimTemplates")[0]}, storageRequest...), template)
		}
	}
	keeps("10Gi", "12Gi")
	later := claimOf(t, p.sized("12Gi", databaseSet), "data-mysql-dataservice-2")
	keeps("10Gi", "12Gi")
	assert.DeepEqual(t, p.writes(), []string{})
	assert.DeepEqual(t, []any{has(claim), has(other), has(later)}, []any{"12Gi", "10Gi", "12Gi"})

	// A size below the size that the spec declared before the growth is refused. The template keeps the enlarged size.
	lowered := p.sized("5Gi", databaseSet)
	fitted, before, refused := p.fit(lowered)
	_, resizes := NewJudge(ownTypes, ownVersion).FitVolumes(lowered, before, []*unstructured.Unstructured{fetch(t, claim)})
	assert.Equal(t, refused[0].Message, "PersistentVolumeClaim data-mysql-dataservice-0 stays at 12Gi: a volume cannot shrink to 5Gi")
	assert.Equal(t, resizes[0].Refused, "stays at 12Gi: a volume cannot shrink to 5Gi")
	assert.Equal(t, field(t, &unstructured.Unstructured{Object: items(fitted.Object, "spec", "volumeClaimTemplates")[0]}, storageRequest...), "12Gi")

	_, _, refused = p.fit(p.sized("20Gi", databaseSet))
	assert.Equal(t, len(refused), 0)
	assert.DeepEqual(t, []any{has(claim), has(other), has(later)}, []any{"20Gi", "20Gi", "20Gi"})

	// A Deployment's claim is an object of the plan, and behaves in the same way.
	await(t, fetch(t, claim))
	grown, _, err = p.Grow(t.Context(), fetch(t, claim), 24*gi, 20*gi)
	assert.NilError(t, err)
	assert.Assert(t, grown)
	await(t, fetch(t, claim))
	p.declare("{mysql: {kind: Deployment, storage: {storageClassName: " + class.Name + "}}}")
	fitted, _, refused = p.fit(p.sized("20Gi", databaseClaim))
	assert.Equal(t, len(refused), 0)
	p.apply(fitted)
	assert.Equal(t, has(claim), "24Gi")
	assert.Equal(t, fetch(t, claim).GetAnnotations()[annotationGrown], `{"to":"24Gi","spec":"20Gi","fileSystem":21474836480}`)
	await(t, fetch(t, claim))
	_, _, refused = p.fit(p.sized("15Gi", databaseClaim))
	assert.Equal(t, refused[0].Message, "PersistentVolumeClaim data-mysql-dataservice-0 stays at 24Gi: a volume cannot shrink to 15Gi")
}

// If the class of a volume cannot expand volumes, the refusal names the class. The size is not requested again immediately.
func TestGrowOnAClassThatCannot(t *testing.T) {
	t.Parallel()
	p, class := onClass(t, false, "")
	claim := claimOf(t, p.sized("10Gi", databaseSet), "data-mysql-dataservice-0")
	for range 2 {
		grown, refusal, err := p.Grow(t.Context(), claim, 12*gi, 10*gi)
		assert.NilError(t, err)
		assert.Assert(t, !grown)
		assert.Equal(t, refusal.Message, "PersistentVolumeClaim data-mysql-dataservice-0 stays at 10Gi: Kubernetes refuses to resize it to 12Gi (Forbidden); "+
			"allow volume expansion in its storage class "+class.Name+", or remove autoGrow")
	}
	assert.Equal(t, strings.Count(strings.Join(p.writes(), " "), "PATCH"), 1)
}

// Growable reads the state of a claim from the claim's status and the operator's annotation. A malformed annotation
// counts as none.
func TestGrowable(t *testing.T) {
	t.Parallel()
	claim := object.Empty(object.ClaimKind)
	claim.SetAnnotations(map[string]string{annotationGrown: `{"to": "30Gi", "spec": "12Gi", "fileSystem": "many"}`})
	claim.Object["spec"] = map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "12Gi"}}}
	claim.Object["status"] = map[string]any{"capacity": map[string]any{"storage": "10Gi"}, "conditions": []any{
		map[string]any{"type": "FileSystemResizePending", "status": "True"}, map[string]any{"type": "ControllerResizeError", "status": "True", "message": "no space"},
	}}
	assert.DeepEqual(t, Growable(claim), ClaimGrowth{Request: 12 * gi, Capacity: 10 * gi, NeedsRestart: true, Refused: "no space"})
	claim.SetAnnotations(map[string]string{annotationGrown: `{"to": "30Gi", "spec": "12Gi", "fileSystem": 7}`})
	assert.Equal(t, Growable(claim).GrownFrom, int64(7))
	to := grownTo(claim)
	assert.Assert(t, to.IsZero(), "the claim does not have the size")
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// An object without an owner says from its creation that GitOps tools leave it alone, and so do the templates of claims. It costs
// no write at rest, and a StatefulSet that is older than that is not replaced for it.
func TestRetainedObjectsAreNotPruned(t *testing.T) {
	t.Parallel()
	const spec = "{mysql: {}}"
	for _, id := range []string{"Secret/mysql-dataservice-credentials", "StatefulSet/mysql-dataservice"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, spec, id)
			check := func() {
				t.Helper()
				live := fetch(t, planned)
				set := live.GetKind() == "StatefulSet"
				assert.Equal(t, object.LacksNoPrune(live), set, "a StatefulSet goes with its owner")
				templates := 0
				eachTemplate(live, func(_ int, template *unstructured.Unstructured) {
					templates++
					assert.Assert(t, !object.LacksNoPrune(template), "%v", template.GetAnnotations())
				})
				assert.Equal(t, templates > 0, set)
			}
			check()
			p.atRest(planned)
			p.restart()
			p.atRest(planned)
			p.declare("{mysql: {labels: {team: a}}}")
			changed := p.planned(id)
			if changed.GetKind() == "Secret" {
				changed.SetLabels(map[string]string{object.LabelInstance: "platform", object.LabelManagedBy: object.ManagedBy, "team": "a"})
				annotations := changed.GetAnnotations()
				annotations[object.AnnotationDigest] = "of another plan"
				changed.SetAnnotations(annotations)
			}
			assert.Equal(t, p.apply(changed).Action, Updated)
			check()
			p.atRest(changed)
		})
	}
}

// What a user decided about pruning stays.
func TestDecisionsOfUsersAboutPruningStay(t *testing.T) {
	t.Parallel()
	for has, want := range map[string]string{
		"":                              "Prune=false,Delete=false",
		"Prune=confirm, Delete=confirm": "Prune=confirm, Delete=confirm",
		"ServerSideApply=true":          "ServerSideApply=true,Prune=false,Delete=false",
		"Prune=true":                    "Prune=true,Delete=false",
		"PrunePropagationPolicy=orphan": "PrunePropagationPolicy=orphan,Prune=false,Delete=false",
	} {
		annotations := object.WithoutPrune(nil, map[string]string{"argocd.argoproj.io/sync-options": has})
		assert.Equal(t, annotations["argocd.argoproj.io/sync-options"], want)
		o := &unstructured.Unstructured{}
		o.SetAnnotations(annotations)
		assert.Assert(t, !object.LacksNoPrune(o), "%q", want)
	}
}

// A StatefulSet whose templates lack the annotations, as an earlier version made it, is as planned.
func TestOlderTemplatesStay(t *testing.T) {
	t.Parallel()
	p := start(t, "{mysql: {}}")
	planned := p.planned("StatefulSet/mysql-dataservice")
	old := planned.DeepCopy()
	old.SetResourceVersion("1")
	p.stampVersion(old)
	assert.NilError(t, operator.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(old), client.FieldOwner(FieldManager), client.ForceOwnership))
	p.atRest(planned)
	p.declare("{mysql: {labels: {team: a}}}")
	changed := p.planned("StatefulSet/mysql-dataservice")
	assert.Equal(t, p.apply(changed).Action, Updated)
	p.atRest(changed)
}

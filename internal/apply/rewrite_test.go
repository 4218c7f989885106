// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policy is a client of an API server with a policy that changes each object that is written.
type policy struct {
	client.Client

	change func(object map[string]any)
}

func (p *policy) Apply(ctx context.Context, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	p.change(obj.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent())
	return p.Client.Apply(ctx, obj, options...)
}

func (p *policy) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	p.change(obj.(*unstructured.Unstructured).Object)
	return p.Client.Update(ctx, obj, options...)
}

// setInContainer returns a policy that sets a field of the first container.
func setInContainer(field string, value any) func(map[string]any) {
	return func(object map[string]any) {
		containers, ok, _ := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
		if !ok {
			return
		}
		containers[0].(map[string]any)[field] = value
		_ = unstructured.SetNestedSlice(object, containers, "spec", "template", "spec", "containers")
	}
}

// What a policy changes is named once, with the value asked for and the one found, and is not written again: not when the object
// is made, not when the policy comes later, and not for a field that a plan does not set. No correction is reported.
func TestRewrittenObjectsAreNotFought(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id     string
		change func(map[string]any)
		note   string
	}{
		"replicas": {"Deployment/web", func(o map[string]any) { _ = unstructured.SetNestedField(o, int64(1), "spec", "replicas") },
			"Deployment web: a policy of the cluster changed spec.replicas to 1, the operator asked for 3"},
		"image": {"Deployment/web", setInContainer("image", "mirror.example/web:v1"),
			`Deployment web: a policy of the cluster changed spec.template.spec.containers[name="web"].image to "mirror.example/web:v1", the operator asked for`},
		"command": {"Deployment/web", setInContainer("command", []any{"/bin/wrapped"}),
			`Deployment web: a policy of the cluster changed spec.template.spec.containers[name="web"].command to ["/bin/wrapped"], the operator asked for nothing`},
		"lifecycle": {"Deployment/web", setInContainer("lifecycle", map[string]any{"preStop": map[string]any{"exec": map[string]any{"command": []any{"sleep"}}}}),
			`a policy of the cluster changed spec.template.spec.containers[name="web"].lifecycle`},
		"data": {"Secret/mysql-dataservice-credentials", func(o map[string]any) { _ = unstructured.SetNestedField(o, "c2VjcmV0", "data", "more") },
			"Secret mysql-dataservice-credentials: a policy of the cluster changed data.more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const spec = "{mysql: {}, web: {replica: 3}}"
			for when, made := range map[string]bool{"from its creation": false, "later": true} {
				p := start(t, spec)
				planned := p.planned(c.id)
				if made {
					p.apply(planned)
				}
				p = p.by(newApplier(&policy{operator, c.change}))
				actions := map[Action]bool{}
				put := func() *Rewrite {
					t.Helper()
					live, err := p.Get(t.Context(), planned)
					assert.NilError(t, err)
					result, err := p.Apply(t.Context(), p.owner(), planned, live)
					assert.NilError(t, err)
					actions[result.Action] = true
					await(t, fetch(t, planned))
					return result.Rewrite
				}
				if made { // someone touches it, so that the operator writes, and the policy changes that
					touched := fetch(t, planned)
					c.change(touched.Object)
					assert.NilError(t, user.Update(t.Context(), touched))
					await(t, touched)
				}
				first := put()
				assert.Assert(t, first != nil && first.IsNew, "%s: %+v", when, first)
				note := first.Note(planned)
				assert.Assert(t, strings.Contains(note, c.note), "%s: %s", when, note)
				p.writes()
				for range 12 {
					again := put()
					assert.Assert(t, again != nil && !again.IsNew && again.Note(planned) == note, "%s: %+v", when, again)
				}
				assert.Equal(t, len(p.writes()), 0, when)
				assert.Assert(t, !actions[Corrected], "%s: %v", when, actions)

				// After an hour it is tried once more, which finds the same, and at once where the policy is gone.
				p.rewrites.now = func() time.Time { return time.Now().Add(2 * retryRewritten) }
				again := put()
				assert.Assert(t, again != nil && !again.IsNew, "%s: %+v", when, again)
				assert.Assert(t, len(p.writes()) > 0, when)
				p = p.by(newApplier(operator))
				assert.Assert(t, put() == nil, when)
				assert.Assert(t, actions[Corrected], when)
				p.atRest(planned)
			}
		})
	}
}

// Where a policy changes one field, what users change in the object is corrected all the same.
func TestEditsBesideAPolicyAreCorrected(t *testing.T) {
	t.Parallel()
	const id = "Deployment/web"
	for name, edit := range map[string]func(*unstructured.Unstructured){
		"a label": func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			labels["app.kubernetes.io/part-of"] = "other"
			o.SetLabels(labels)
		},
		"an image": func(o *unstructured.Unstructured) { setInContainer("image", "other")(o.Object) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "{web: {replica: 3}}")
			planned := p.planned(id)
			p = p.by(newApplier(&policy{operator, func(o map[string]any) { _ = unstructured.SetNestedField(o, int64(1), "spec", "replicas") }}))
			put := func() Result {
				live, err := p.Get(t.Context(), planned)
				assert.NilError(t, err)
				result, err := p.Apply(t.Context(), p.owner(), planned, live)
				assert.NilError(t, err)
				await(t, fetch(t, planned))
				return result
			}
			assert.Equal(t, put().Action, Created)
			edited := fetch(t, planned)
			edit(edited)
			assert.NilError(t, user.Update(t.Context(), edited))
			await(t, edited)
			result := put()
			assert.Equal(t, result.Action, Corrected)
			assert.Assert(t, result.Rewrite != nil && !result.Rewrite.IsNew)
			assert.Equal(t, put().Action, Unchanged)
		})
	}
}

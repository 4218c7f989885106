// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policy is a client of an API server with a policy that changes every written object.
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

// If a policy changes an object, the change is reported once, with the requested and the found value, and the object is
// not written again. The policy may exist before the object or appear later, and may set a field that the plan does not
// set. No correction is reported.
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
				if made { // the user's change makes the operator write the object; the policy changes that write
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

				// After an hour, the operator writes the object again, with the same result. Without the policy, the object becomes as
				// planned.
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

// A policy has changed the claim templates of a StatefulSet at its creation. Neither a restart of the operator nor a change of the plan
// replaces the StatefulSet.
func TestClaimTemplatesOfAPolicyStay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(template *unstructured.Unstructured){
		"label": func(template *unstructured.Unstructured) {
			template.SetLabels(with(template.GetLabels(), map[string]string{"cost-center": "a"}))
		},
		"annotation": func(template *unstructured.Unstructured) {
			template.SetAnnotations(with(template.GetAnnotations(), map[string]string{"backup.example.com/exclude": "true"}))
		},
		"storage class": func(template *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(template.Object, "fast", "spec", "storageClassName")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const onlyAtCreation = "1"
			atCreation := &policy{operator, func(o map[string]any) {
				if set := (&unstructured.Unstructured{Object: o}); set.GetResourceVersion() == onlyAtCreation {
					eachTemplate(set, change)
				}
			}}
			p := start(t, "{mysql: {}}").by(newApplier(atCreation))
			planned := p.planned(databaseSet)
			created := p.apply(planned)
			assert.Equal(t, created.Action, Created)
			uid := created.Object.GetUID()
			for range 3 {
				p = p.by(newApplier(atCreation))
				p.atRest(planned)
			}
			edit(t, planned, inContainer(setting("other", "image")))
			assert.Equal(t, p.apply(planned).Action, Corrected)
			if name != "storage class" { // after a change of the plan, a class from a policy is not kept
				p.declare("{mysql: {labels: {team: a}}}")
				assert.Equal(t, p.apply(p.planned(databaseSet)).Action, Updated)
			}
			live := fetch(t, planned)
			assert.Equal(t, live.GetUID(), uid)
			eachTemplate(live, func(template *unstructured.Unstructured) {
				changed := template.DeepCopy()
				change(changed)
				assert.DeepEqual(t, template, changed)
			})
		})
	}
}

// If a policy changes one field of an object, edits of its other fields are still corrected.
func TestEditsOfOtherFieldsAreCorrected(t *testing.T) {
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

// foresee returns a function that fails the test unless an apply had the predicted effect. Every test of this package that applies an
// object calls it.
func (p *platform) foresee(planned *unstructured.Unstructured) func(Result, error) {
	p.Helper()
	live, err := get(p.Context(), user, planned)
	assert.NilError(p, err)
	before := live.DeepCopy()
	verdict, refused := NewJudge(ownTypes, p.version).Judge(p.owner(), planned, live)
	return func(result Result, err error) {
		p.Helper()
		var foreign *ConflictError
		var newer *NewerError
		if errors.As(err, &foreign) || errors.As(err, &newer) {
			assert.DeepEqual(p, refused, err)
		}
		if err != nil {
			return // Judge cannot predict most refusals of the API server
		}
		assert.NilError(p, refused)
		assert.Equal(p, verdict.Action, result.Action, "foreseen for %s; fields %v", describe(planned), verdict.Fields)
		if verdict.Action != Updated && verdict.Action != Corrected {
			return
		}
		after := fetch(p.T, planned)
		assert.Assert(p, len(verdict.Fields) > 0 || reflect.DeepEqual(content(before), content(after)), "%s changed", describe(planned))
		for field, want := range content(verdict.Result) {
			if planned.GetKind() == "Service" {
				break // the API server removes and sets fields of a Service, depending on its type
			}
			assert.Assert(p, has(after.Object[field], want), "%s of %s: foreseen %v, is %v", field, describe(planned), want, after.Object[field])
		}
		was, _, _ := unstructured.NestedMap(before.Object, "spec", "template")
		is, _, _ := unstructured.NestedMap(after.Object, "spec", "template")
		if podTemplate(planned) != nil {
			assert.Equal(p, verdict.NewPods, !reflect.DeepEqual(was, is), "new pods of %s; fields %v", describe(planned), verdict.Fields)
		}
	}
}

// has reports whether a live object has every predicted value. (The API server fills in more values.)
func has(live, foreseen any) bool {
	switch want := foreseen.(type) {
	case map[string]any:
		there, ok := live.(map[string]any)
		for key, value := range want {
			if !empty(value) && (!ok || !has(there[key], value)) {
				return false
			}
		}
		return true
	case []any:
		there, ok := live.([]any)
		return ok && slices.EqualFunc(there, want, has)
	}
	return live == foreseen
}

// content returns an object without the fields that the API server maintains.
func content(o *unstructured.Unstructured) map[string]any {
	found := o.DeepCopy().Object
	delete(found, "metadata")
	delete(found, "status")
	return found
}

// A field that the plan no longer sets is removed, and its old value is reported. A field of another manager stays.
func TestAJudgeSeesWhatIsRemoved(t *testing.T) {
	t.Parallel()
	const id = "Deployment/auth"
	p, planned := running(t, "{mysql: {}, eureka: {}, auth: {image: 'a:1', envs: [{name: MORE, value: x}], annotations: {team: a}}}", id)
	edit(t, planned, setting("y", "metadata", "annotations", "somebody"))
	p.ds.Spec.Auth.Envs, p.ds.Spec.Auth.Annotations = nil, nil
	planned = p.planned(id)
	verdict, err := NewJudge(ownTypes, ownVersion).Judge(p.owner(), planned, fetch(t, planned))
	assert.NilError(t, err)
	assert.Equal(t, verdict.Result.GetAnnotations()["somebody"], "y")
	var paths []string
	for _, f := range verdict.Fields {
		paths = append(paths, f.Path)
	}
	assert.DeepEqual(t, paths, []string{
		`spec.template.metadata.annotations.team`,
		`spec.template.spec.containers[name="auth"].env[name="MORE"].name`,
		`spec.template.spec.containers[name="auth"].env[name="MORE"].value`,
	})
	assert.Assert(t, verdict.NewPods)
	p.apply(planned)
}

// An object with data is not replaced: Judge names the field whose change would need a replacement.
func TestAJudgeRefusesToReplaceData(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{mysql: {kind: Deployment}}", "PersistentVolumeClaim/data-mysql-dataservice-0")
	other := planned.DeepCopy()
	set(t, other.Object, "fast", "spec", "storageClassName")
	_, err := NewJudge(ownTypes, ownVersion).Judge(p.owner(), other, fetch(t, planned))
	assert.ErrorContains(t, err, "take back the change of spec.storageClassName")
}

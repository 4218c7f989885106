// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
)

// A part takes objects that the cache shows and that are known to be the owner's, and no others. Neither the number of
// pods nor a disruption budget is a new revision.
func TestFinish(t *testing.T) {
	owner := object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "example", Version: "v1", Kind: "Notebook"},
		Namespace:        "ns", Name: "book", UID: "uid",
	}
	finish := func(kind string, change func(*unstructured.Unstructured)) (*Part, error) {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "spec": map[string]any{"replicas": int64(1)}}}
		o.SetNamespace("ns")
		o.SetName("book")
		o.SetLabels(owner.Labels("pages"))
		change(o)
		part := &Part{Name: "pages", Objects: []*unstructured.Unstructured{o}}
		return part, part.Finish(owner)
	}
	label := func(key, value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			labels[key] = value
			o.SetLabels(labels)
		}
	}
	good, err := finish("StatefulSet", label("more", "x"))
	assert.NilError(t, err)
	assert.Assert(t, object.Digest(good.Objects[0]) != "" && owner.Controls(good.Objects[0]) && good.Revision != "")
	for name, c := range map[string]struct {
		kind   string
		change func(*unstructured.Unstructured)
		err    string
		same   bool
	}{
		"another namespace": {"StatefulSet", func(o *unstructured.Unstructured) { o.SetNamespace("other") }, "StatefulSet book is not in namespace ns", false},
		"another instance":  {"StatefulSet", label(object.LabelInstance, "other"), `app.kubernetes.io/instance="other", not "book"`, false},
		"another part":      {"StatefulSet", label(object.LabelComponent, ""), object.LabelComponent, false},
		"another kind":      {"StatefulSet", label(object.LabelKind, ""), `not "notebook.example"`, false},
		"not managed":       {"StatefulSet", label(object.LabelManagedBy, "Helm"), `not "d3os-operator"`, false},
		"another label":     {"StatefulSet", label("more", "y"), "", false},
		"scaled": {"StatefulSet", func(o *unstructured.Unstructured) {
			label("more", "x")(o)
			o.Object["spec"] = map[string]any{"replicas": int64(3)}
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := finish(c.kind, c.change)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, part.Revision == good.Revision, c.same)
		})
	}
	one, err := finish("PodDisruptionBudget", label("more", "x"))
	assert.NilError(t, err)
	other, err := finish("PodDisruptionBudget", label("more", "y"))
	assert.NilError(t, err)
	assert.Equal(t, one.Revision, other.Revision)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
)

// Finish accepts only objects that the cache shows as objects of the owner. Neither the number of pods nor a disruption budget changes the
// revision.
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

var owner = object.Owner{
	GroupVersionKind: schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"},
	Namespace:        "data-prod", Name: "platform", UID: "5f1d7a84-0000-4000-8000-000000000000",
}

// A revision names its resource, its owner and its writer, and contains no password.
func TestRevision(t *testing.T) {
	t.Parallel()
	spec := map[string]any{
		"mysql": map[string]any{"kind": "ThirdParty", "thirdParty": map[string]any{"url": "mysql://a", "username": "u", "password": "hush"}},
		"auth":  map[string]any{"image": "r/auth:1", "envs": []any{map[string]any{"name": "A", "password": "hush"}}},
	}
	r, err := NewRevision(owner, 7, 6, spec)
	assert.NilError(t, err)
	assert.Equal(t, r.Name, "platform-5f1d7a84-7")
	assert.Equal(t, r.Namespace, "data-prod")
	assert.Equal(t, r.Revision, int64(7))
	assert.Equal(t, NumberOf(r), int64(7))
	assert.Assert(t, owner.Controls(r))
	assert.Equal(t, r.Labels[Label], string(owner.UID))
	assert.Assert(t, strings.HasPrefix(string(r.Data.Raw), `{"apiVersion":"d3os-product.com.d3os/v1","kind":"DataService","spec":`))
	assert.Assert(t, !strings.Contains(string(r.Data.Raw), "hush"))
	assert.Equal(t, strings.Count(string(r.Data.Raw), Masked), 2)
	assert.Equal(t, spec["mysql"].(map[string]any)["thirdParty"].(map[string]any)["password"], "hush", "the password in the spec itself is not masked")

	read, err := Read(r)
	assert.NilError(t, err)
	assert.Equal(t, read.Number, int64(7))
	assert.Equal(t, read.Ready, int64(6))
	assert.Equal(t, read.Spec["auth"].(map[string]any)["image"], "r/auth:1")

	first, err := NewRevision(owner, 1, 0, spec)
	assert.NilError(t, err)
	read, err = Read(first)
	assert.NilError(t, err)
	assert.Equal(t, read.Ready, int64(0))
	first.Data.Raw = []byte("{")
	_, err = Read(first)
	assert.ErrorContains(t, err, "platform-5f1d7a84-1")
}

// Specs that are larger than maxSize are not stored.
func TestLargeSpecsAreNotKept(t *testing.T) {
	t.Parallel()
	r, err := NewRevision(owner, 1, 0, map[string]any{"auth": strings.Repeat("x", maxSize)})
	assert.NilError(t, err)
	assert.Assert(t, r == nil)
}

func TestGood(t *testing.T) {
	t.Parallel()
	all := []*Revision{{Number: 1}, {Number: 2, Ready: 1}, {Number: 3, Ready: 1}, {Number: 4, Ready: 3}}
	assert.DeepEqual(t, Good(all, 3), map[int64]bool{1: true, 3: true})
	assert.DeepEqual(t, Good(nil, 0), map[int64]bool{})
}

// The last good revision stays, regardless of the number of bad ones after it.
func TestTheLastGoodRevisionIsNeverDropped(t *testing.T) {
	t.Parallel()
	var all []Numbered
	for n := int64(1); n <= 25; n++ {
		all = append([]Numbered{{Name: "r", Number: n}}, all...)
	}
	numbers := func(dropped []Numbered) (found []int64) {
		for _, r := range dropped {
			found = append(found, r.Number)
		}
		return found
	}
	assert.DeepEqual(t, numbers(Surplus(all, 3)), []int64{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1})
	assert.Equal(t, len(Surplus(all, 20)), 15)
	assert.Equal(t, len(Surplus(all[:Limit], 0)), 0)
	assert.Equal(t, len(Surplus(nil, 1)), 0)
}

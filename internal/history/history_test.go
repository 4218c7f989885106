// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
)

var owner = object.Owner{
	GroupVersionKind: schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"},
	Namespace:        "data-prod", Name: "platform", UID: "5f1d7a84-0000-4000-8000-000000000000",
}

// A revision says what it is of, whose it is, and what it was written by; no password leaves the spec.
func TestRevision(t *testing.T) {
	t.Parallel()
	spec := map[string]any{
		"mysql": map[string]any{"kind": "ThirdParty", "thirdParty": map[string]any{"url": "mysql://a", "username": "u", "password": "hush"}},
		"auth":  map[string]any{"image": "r/auth:1", "envs": []any{map[string]any{"name": "A", "password": "hush"}}},
	}
	r, err := New(owner, 7, 6, spec)
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
	assert.Equal(t, spec["mysql"].(map[string]any)["thirdParty"].(map[string]any)["password"], "hush", "the spec itself stays")

	read, err := Read(r)
	assert.NilError(t, err)
	assert.Equal(t, read.Number, int64(7))
	assert.Equal(t, read.Ready, int64(6))
	assert.Equal(t, read.Spec["auth"].(map[string]any)["image"], "r/auth:1")

	first, err := New(owner, 1, 0, spec)
	assert.NilError(t, err)
	read, err = Read(first)
	assert.NilError(t, err)
	assert.Equal(t, read.Ready, int64(0))
	first.Data.Raw = []byte("{")
	_, err = Read(first)
	assert.ErrorContains(t, err, "platform-5f1d7a84-1")
}

// An author does not fill the API server's store with earlier specs.
func TestLargeSpecsAreNotKept(t *testing.T) {
	t.Parallel()
	r, err := New(owner, 1, 0, map[string]any{"auth": strings.Repeat("x", maxSize)})
	assert.NilError(t, err)
	assert.Assert(t, r == nil)
}

func TestGood(t *testing.T) {
	t.Parallel()
	all := []*Revision{{Number: 1}, {Number: 2, Ready: 1}, {Number: 3, Ready: 1}, {Number: 4, Ready: 3}}
	assert.DeepEqual(t, Good(all, 3), map[int64]bool{1: true, 3: true})
	assert.DeepEqual(t, Good(nil, 0), map[int64]bool{})
}

// The last good revision stays, however many bad ones follow it.
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

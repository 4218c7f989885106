// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package usersecret

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Passwords of Secrets that no resource names any more do not stay in memory.
func TestWhatWasReadIsForgotten(t *testing.T) {
	t.Parallel()
	r := New()
	now := time.Unix(0, 0)
	r.Now = func() time.Time { return now }
	lookup := func(_, name string) (*unstructured.Unstructured, error) {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{"password": "cHc="}}}, nil
	}
	for _, name := range []string{"a", "b"} {
		values, _, err := r.Read("data", name, lookup, "password")
		assert.NilError(t, err)
		assert.Equal(t, values["password"], "pw")
		assert.Equal(t, len(r.known), 1)
		now = now.Add(untilClean)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestOrdinals(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"cache-0": 0, "cache-12": 12, "cache-": -1, "cache-a": -1, "cache-01": -1, "other-1": -1, "cache-1-0": -1, "cache--1": -1} {
		n, ok := Ordinal(name, "cache-")
		if !ok {
			n = -1
		}
		assert.Equal(t, n, want, name)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestNewer(t *testing.T) {
	ascending := []string{
		"0.0.1", "0.1.0-alpha", "0.1.0-alpha.2", "0.1.0-alpha.10", "0.1.0-rc.1", "0.1.0", "0.1.1", "v0.2.0", "0.10.0", "1.0.0", "10.0.0",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			assert.Equal(t, Newer(a, b), i > j, "%s and %s", a, b)
		}
	}
	assert.Assert(t, !Newer("1.0.0+late", "1.0.0+early"), "build metadata does not order versions")
	for _, unordered := range []string{"", "0.0.0-dev", "0.0.0", "main", "1.0", "1.0.0.0"} {
		for _, other := range []string{"", "0.0.0-dev", "0.0.1", "9.9.9"} {
			assert.Assert(t, !Newer(unordered, other) && !Newer(other, unordered), "%q and %q", unordered, other)
		}
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestFull(t *testing.T) {
	for free, want := range map[int64]string{
		1 << 30: "", least: "",
		least - 1: "no space left on the volume: 15 of 1024 MiB",
		0:         "no space left on the volume: 0 of 1024 MiB",
	} {
		assert.Equal(t, full(free, 1<<30), want)
	}
	assert.Equal(t, (&Volume{Root: t.TempDir()}).Full(), "", "the test's own volume")
}

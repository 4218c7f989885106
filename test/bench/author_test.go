// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness"
)

// The section author, with fewer updates than make bench has: the operator's resident memory does
// not grow with what an author writes. It fails when a number lies outside its bound.
func TestAnAuthorDoesNotTakeTheOperatorsMemory(t *testing.T) {
	harness.Long(t)
	f, err := parseFlags([]string{"-only", "author", "-scale", "1", "-updates", "60"})
	assert.NilError(t, err)
	assert.NilError(t, run(t.Context(), f))
}

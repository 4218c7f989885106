// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import "testing"

// Long marks a test that `make test` (go test -short), and with it .ci/run, leaves to `make verify`: the processor time of a
// minute and more goes into it, and a shorter test of its package shows that the same parts work together.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: make verify runs it, and go test without -short")
	}
}

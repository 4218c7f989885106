// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"
	"time"
)

// Long marks a test that `make test` (go test -short), and with it .ci/run, leaves to `make verify`: the processor time of a
// minute and more goes into it, and a shorter test of its package shows that the same parts work together.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: make verify runs it, and go test without -short")
	}
}

// Bound returns how long something may take. A figure that is promised holds where a suite has the machine to itself (full:
// make etcd, make redis). make test shares its cores with other packages and with whatever else runs, and allows five times
// as much: nothing was written to an etcd of one member for 4.3 s there, because that member did not get to answer.
func Bound(promised time.Duration, full bool) time.Duration {
	if full {
		return promised
	}
	return 5 * promised
}

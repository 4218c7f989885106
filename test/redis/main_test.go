// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis_test holds what the operator does with real redis-server processes against what it promises.
package redis_test

import (
	"os"
	"testing"

	"d3os.com/d3os-operator/test/harness"
)

// full reports whether everything is tried: every crash point, and faults that take minutes.
var full = os.Getenv("REDIS_TESTS") == "full"

func TestMain(m *testing.M) {
	harness.AtOnce(8) // tests mostly wait
	os.Exit(m.Run())
}

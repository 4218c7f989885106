// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis_test holds what the operator does with real redis-server processes against what it promises.
package redis_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// full reports whether everything is tried: every crash point, and faults that take minutes.
var full = os.Getenv("REDIS_TESTS") == "full"

func TestMain(m *testing.M) {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel") }) {
		_ = flag.Set("test.parallel", "8") // tests mostly wait
	}
	os.Exit(m.Run())
}

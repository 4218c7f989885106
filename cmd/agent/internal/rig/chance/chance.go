// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chance provides the random numbers of tests. Each run gets the same numbers unless the environment variable SEED is set.
package chance

import (
	"math/rand"
	"os"
	"strconv"
	"testing"
)

// Seed returns the sum of a constant and SEED, and logs both.
func Seed(t testing.TB, constant int64) int64 {
	t.Helper()
	seed := int64(0)
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("SEED must be a number: %v", err)
		}
	}
	t.Logf("random numbers %d of SEED=%d", constant, seed)
	return seed + constant
}

// New returns a source of random numbers that uses Seed.
func New(t testing.TB, constant int64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewSource(Seed(t, constant)))
}

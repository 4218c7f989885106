// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"math/big"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Each value of a key is in exactly one range. Values that were outside of the minimum and maximum at the time of the
// division are in the first or the last range.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"0", "80"}, {"-9", "9"}, {"5", "5"}, {"1", "3"}, {"0", "18446744073709551615"}, {"-9223372036854775808", "9223372036854775807"}} {
		least, most := new(big.Int), new(big.Int)
		assert.Assert(t, isSet(least, c[0]) && isSet(most, c[1]))
		ranges := divide("k", least, most)
		values := []*big.Int{least, most, new(big.Int).Sub(least, big.NewInt(1)), new(big.Int).Add(most, big.NewInt(1))}
		for _, where := range ranges {
			for _, word := range strings.Fields(where) {
				if n := new(big.Int); isSet(n, word) { // tests the numbers around each bound
					values = append(values, n, new(big.Int).Sub(n, big.NewInt(1)), new(big.Int).Add(n, big.NewInt(1)))
				}
			}
		}
		for _, value := range values {
			in := 0
			for _, where := range ranges {
				if fulfils(t, where, value) {
					in++
				}
			}
			assert.Equal(t, in, 1, "%s of %v in %q", value, c, ranges)
		}
	}
}

// fulfils reports whether a value of k satisfies a condition such as " WHERE k >= 1 AND k < 2".
func fulfils(t *testing.T, where string, value *big.Int) bool {
	t.Helper()
	for _, term := range strings.Split(strings.TrimPrefix(where, " WHERE "), " AND ") {
		words, bound := strings.Fields(term), new(big.Int)
		assert.Assert(t, len(words) == 3 && words[0] == "k" && isSet(bound, words[2]), where)
		if (words[1] == "<") != (value.Cmp(bound) < 0) {
			return false
		}
	}
	return true
}

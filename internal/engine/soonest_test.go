// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/apply"
)

// Of several failures the one that is tried again soonest decides when: a contested object, which waits for minutes, delays no other.
func TestSoonestRetryOfSeveralFailuresDecides(t *testing.T) {
	t.Parallel()
	contested := func(after time.Duration) error { return fmt.Errorf("a: %w", &apply.ContestedError{RetryAfter: after}) }
	plain := errors.New("refused")
	for name, test := range map[string]struct {
		failures []error
		want     int
	}{
		"none":                      {[]error{nil, nil}, -1},
		"the first of equal ones":   {[]error{nil, plain, plain}, 1},
		"contested, then refused":   {[]error{contested(time.Minute), nil, plain}, 2},
		"the sooner contested":      {[]error{contested(time.Minute), contested(time.Second)}, 1},
		"a newer operator ends all": {[]error{plain, &apply.NewerError{}}, 1},
		"newer alone":               {[]error{nil, &apply.NewerError{}}, 1},
	} {
		assert.Equal(t, soonest(test.failures), test.want, name)
	}
}

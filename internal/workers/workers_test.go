// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workers_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/workers"
)

// A panic in a group reaches the caller after all functions have returned, with the place of the panic.
func TestPanicOfAGroupReachesTheCaller(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	err := workers.Protect(func() error {
		var group workers.Group
		group.SetLimit(2)
		for i := range 10 {
			group.Go(func() {
				if ran.Add(1); i == 3 {
					panic("a slice out of range")
				}
			})
		}
		group.Wait()
		return nil
	})
	var panicked *workers.PanicError
	assert.Assert(t, errors.As(err, &panicked))
	assert.Equal(t, ran.Load(), int32(10))
	assert.Error(t, err, "panic: a slice out of range")
	assert.Assert(t, strings.Contains(string(panicked.Stack), "TestPanicOfAGroupReachesTheCaller"))
}

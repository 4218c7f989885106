// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package day2_test

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/day2"
)

type lease bool

func (l lease) Held() bool { return bool(l) }

// One step a pass, and none without the lease.
func TestRun(t *testing.T) {
	t.Parallel()
	var taken []string
	step := func(name string, err error) day2.Step {
		return day2.Step{Name: name, Message: "of a test", Do: func(context.Context) error {
			taken = append(taken, name)
			return err
		}}
	}
	assert.NilError(t, day2.NewRunner(lease(true)).Run(t.Context(), nil))
	assert.NilError(t, day2.NewRunner(lease(true)).Run(t.Context(), []day2.Step{step("one", nil), step("two", nil)}))
	assert.DeepEqual(t, taken, []string{"one"})

	err := day2.NewRunner(lease(false)).Run(t.Context(), []day2.Step{step("three", nil)})
	assert.ErrorIs(t, err, day2.ErrNotHeld)
	assert.DeepEqual(t, taken, []string{"one"})

	cause := errors.New("no route")
	err = day2.NewRunner(lease(true)).Run(t.Context(), []day2.Step{step("four", cause)})
	assert.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "step four (of a test)")
}

// A step that goes on for long learns that the lease is lost.
func TestHeld(t *testing.T) {
	t.Parallel()
	assert.NilError(t, day2.Held(t.Context()))
	held := fickle(true)
	effects := 0
	err := day2.NewRunner(&held).Run(t.Context(), []day2.Step{{Name: "long", Do: func(ctx context.Context) error {
		for range 3 {
			if err := day2.Held(ctx); err != nil {
				return err
			}
			effects++
			held = fickle(effects < 2)
		}
		return nil
	}}})
	assert.ErrorIs(t, err, day2.ErrNotHeld)
	assert.Equal(t, effects, 2)
}

type fickle bool

func (f *fickle) Held() bool { return bool(*f) }

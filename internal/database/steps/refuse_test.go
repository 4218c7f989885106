// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPodIs(t *testing.T) {
	t.Parallel()
	pod := Pod{UID: "1", IP: "10.0.0.1"}
	assert.NilError(t, pod.Is("a-0", "1", "10.0.0.1"))
	for message, c := range map[string]struct {
		pod     Pod
		uid, ip string
	}{
		"pod a-0 is gone": {Pod{}, "1", "10.0.0.1"}, "has been replaced": {pod, "2", "10.0.0.1"}, "has address": {pod, "1", "10.0.0.2"},
		"is being deleted": {Pod{"1", "10.0.0.1", true}, "1", "10.0.0.1"},
	} {
		err := c.pod.Is("a-0", c.uid, c.ip)
		assert.Assert(t, errors.Is(err, ErrRefused))
		assert.ErrorContains(t, err, message)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestServerAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mysql://a": "a:3306", "mysql://a.b:1/": "a.b:1", "mysql://[::1]": "[::1]:3306", "mysql://[fd00::1]:3307": "[fd00::1]:3307", "mysql://10.0.0.1:1": "10.0.0.1:1",
	} {
		got, err := serverAddress(text, "3306")
		assert.NilError(t, err)
		assert.Equal(t, got, want)
	}
	for _, text := range []string{"", "mysql://", "mysql://:1", "a:b:c"} {
		_, err := serverAddress(text, "3306")
		assert.ErrorContains(t, err, envCheckURL)
	}
}

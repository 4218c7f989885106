// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"os"
	"testing"

	"gotest.tools/v3/assert"
)

// The agent reads secrets by the same rule as the operator and the charts' scripts.
func TestCleanSecret(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../internal/object/testdata/rule.json")
	assert.NilError(t, err)
	var rows []struct {
		Name, Clean, Refused string
		Raw                  []byte
	}
	assert.NilError(t, json.Unmarshal(text, &rows))
	for _, r := range rows {
		got, err := CleanSecret(r.Raw)
		assert.Equal(t, got, r.Clean, r.Name)
		if r.Refused == "" {
			assert.NilError(t, err, r.Name)
		} else {
			assert.Error(t, err, r.Refused, r.Name)
		}
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

// The table of sizes that people read is the charts' own.
func TestTheTableOfSizes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/services.md")
	assert.NilError(t, err)
	for _, size := range []string{"small", "medium", "large"} {
		row := "| " + size
		for _, chart := range []string{component.ChartMicroservice, component.ChartMySQL, component.ChartEureka, component.ChartCronJob} {
			data, err := os.ReadFile(chart + "/values.yaml")
			assert.NilError(t, err)
			var v struct {
				Sizes map[string]struct{ Requests, Limits map[string]string }
			}
			assert.NilError(t, yaml.Unmarshal(data, &v))
			s := v.Sizes[size]
			assert.Equal(t, s.Requests["memory"], s.Limits["memory"], "memory that is not there kills a pod")
			row += fmt.Sprintf(" | %s to %s CPU, %s", s.Requests["cpu"], s.Limits["cpu"], s.Limits["memory"])
		}
		assert.Assert(t, is.Contains(strings.Split(string(text), "\n"), row+" |"))
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const (
	sourceA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	sourceB = "3E11FA47-71CA-11E1-9E33-C80AA9429563"
)

func TestGTIDs(t *testing.T) {
	t.Parallel()
	parse := func(text string) GTIDs {
		t.Helper()
		set, err := ParseGTIDs(text)
		assert.NilError(t, err, text)
		return set
	}
	for text, want := range map[string]string{
		"":             "",
		sourceA + ":1": sourceA + ":1",
		sourceA + ":1-3:4-5:9,\n" + sourceA + ":6": sourceA + ":1-6:9",
		sourceA + ":9:1-3:2-7":                     sourceA + ":1-7:9",
		sourceB + ":1-2":                           strings.ToLower(sourceB) + ":1-2",
		sourceA + ":1:Blue:2-3:green:1":            sourceA + ":1," + sourceA + ":blue:2-3," + sourceA + ":green:1",
	} {
		set := parse(text)
		assert.Equal(t, set.String(), want)
		assert.Assert(t, set.Equal(parse(set.String())))
	}
	for _, text := range []string{"x", sourceA, sourceA + ":", sourceA + ":0", sourceA + ":3-2", sourceA + ":1-", sourceA + ":blue", sourceA + ":1:", sourceA + ":99999999999999999999", sourceA + ":-"} {
		_, err := ParseGTIDs(text)
		assert.ErrorContains(t, err, "read the GTID set", text)
	}
	for _, c := range []struct {
		set, other string
		contains   bool
	}{
		{"", "", true},
		{sourceA + ":1-5", "", true},
		{"", sourceA + ":1", false},
		{sourceA + ":1-5", sourceA + ":2:4-5", true},
		{sourceA + ":1-5", sourceA + ":5-6", false},
		{sourceA + ":1-2:4-5", sourceA + ":2-4", false},
		{sourceA + ":1-5", strings.ToUpper(sourceA) + ":1-5", true},
		{sourceA + ":1-5", sourceB + ":1", false},
		{sourceA + ":1-5", sourceA + ":blue:1", false},
		{sourceA + ":blue:1-5", sourceA + ":BLUE:1", true},
	} {
		assert.Equal(t, parse(c.set).Contains(parse(c.other)), c.contains, "%s contains %s", c.set, c.other)
	}
	for _, c := range []struct{ set, other, with, without string }{
		{"", "", "", ""},
		{":1-5", ":7", ":1-5:7", ":1-5"},
		{":1-5", ":2:4-9", ":1-9", ":1:3"},
		{":1-5:8-9", ":3-8", ":1-9", ":1-2:9"},
		{":1-5", ":1-5", ":1-5", ""},
		{":blue:1-2", ":1-2", ":1-2," + sourceA + ":blue:1-2", ":blue:1-2"},
	} {
		named := func(text string) string {
			if text == "" {
				return ""
			}
			return sourceA + text
		}
		set, other := parse(named(c.set)), parse(named(c.other))
		assert.Equal(t, set.With(other).String(), named(c.with))
		assert.Equal(t, set.Without(other).String(), named(c.without))
		assert.Equal(t, set.String()+other.String(), named(c.set)+named(c.other)) // both are unchanged
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const operations = "../../docs/operations.md"

// constants are the values of the string constants of status_types.go with a prefix.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "status_types.go", nil, 0)
	assert.NilError(t, err)
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		assert.NilError(t, err)
		found = append(found, value)
		return true
	})
	slices.Sort(found)
	return found
}

// tables are what the first column of each table of a page names, by the title of the column.
func tables(t *testing.T, file string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	found := map[string][]string{}
	title, row := "", 0
	section := ""
	for line := range strings.Lines(string(data)) {
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			section = strings.TrimSpace(strings.TrimLeft(heading, "#"))
		}
		if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-") {
			row = 0
			continue
		}
		cell := strings.TrimSpace(strings.Split(line, "|")[1])
		switch row++; row {
		case 1:
			title = section + "/" + cell
		case 2:
		default:
			for name := range strings.SplitSeq(cell, ",") {
				found[title] = append(found[title], strings.Trim(name, " `"))
			}
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

// Whoever reads a phase, a condition or a reason in a status finds it in the documentation, and
// nothing is documented that does not exist.
func TestEveryReasonIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	documented := tables(t, operations)
	for title, prefix := range map[string]string{
		"Reasons of conditions/reason": "Reason", "Reasons of events/reason": "Event",
		"Reading a DataService/phase": "Phase", "Reading a DataService/condition": "Condition",
	} {
		want := constants(t, prefix)
		assert.Assert(t, len(want) > 0, prefix)
		assert.DeepEqual(t, documented[title], want)
	}
}

// The alerts that are shipped are those that the documentation explains.
func TestEveryAlertIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../config/prometheus/rules.yaml")
	assert.NilError(t, err)
	alerts := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)- alert: (\w+)`).FindAllStringSubmatch(string(data), -1) {
		alerts[match[1]] = true
	}
	assert.Assert(t, len(alerts) > 0)
	assert.DeepEqual(t, tables(t, operations)["Alerts/alert"], slices.Sorted(maps.Keys(alerts)))
}

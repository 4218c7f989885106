// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const (
	statusPage = "../../docs/status.md"
	everyKind  = "../../internal/kinds/kinds.go"
	redis      = "../redis/v1alpha1/status_types.go"
	ofBackups  = "../backup/v1alpha1/store_types.go" // what clusters with backups have in common
	topology   = "../../internal/kinds/rediscluster/topology/"
)

// constants are the values of the string constants of a file with a prefix, or with a type.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	assert.NilError(t, err)
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		kind, _ := spec.Type.(*ast.Ident)
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(spec.Names[0].Name, prefix) && (kind == nil || kind.Name != prefix) {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		assert.NilError(t, err)
		found = append(found, value)
		return true
	})
	assert.Assert(t, len(found) > 0, "%s has no %s", file, prefix)
	slices.Sort(found)
	return found
}

// without are the values that are not among others.
func without(all []string, others ...string) []string {
	return slices.DeleteFunc(all, func(value string) bool { return slices.Contains(others, value) })
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

// Whoever reads a phase, a condition, a reason or an event of any kind finds its row in the status reference, and nothing
// is in there that does not exist.
func TestEveryReasonIsInTheReference(t *testing.T) {
	t.Parallel()
	documented := tables(t, statusPage)
	failures := constants(t, everyKind, "Reason")
	events := append(constants(t, "status_types.go", "Event"), "VolumeNotResized", "PolicyChangedObject")
	slices.Sort(events)
	for title, want := range map[string][]string{
		"Reasons of failures/reason":             failures,
		"Reasons of events/reason":               events,
		"Phases of a DataService/phase":          constants(t, "status_types.go", "Phase"),
		"Conditions of a DataService/condition":  constants(t, "status_types.go", "Condition"),
		"Reasons of a DataService/reason":        without(constants(t, "status_types.go", "Reason"), failures...),
		"Phases of a RedisCluster/phase":         constants(t, redis, "Phase"),
		"Conditions of a RedisCluster/condition": slices.Sorted(slices.Values(append(constants(t, redis, "Condition"), constants(t, ofBackups, "Condition")...))),
		"Reasons of a RedisCluster/reason":       slices.Sorted(slices.Values(append(without(constants(t, redis, "Reason"), failures...), constants(t, ofBackups, "Reason")...))),
		"Verdicts of a RedisCluster/verdict":     constants(t, topology+"model.go", "Verdict"),
		"Steps of a RedisCluster/step":           without(constants(t, topology+"step.go", "Action"), "Wait"),
	} {
		assert.DeepEqual(t, documented[title], want)
	}
	// Whatever the engine tells of is among the events.
	for _, event := range constants(t, "../../internal/engine/event.go", "Event") {
		assert.Assert(t, slices.Contains(events, event), event)
	}
}

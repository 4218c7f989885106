// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"gotest.tools/v3/assert"
)

// A key identifies the rows of a table for a replay unless the dump may change values of the key that the replay uses.
func TestKeysThatIdentifyRows(t *testing.T) {
	const table = "`a`.`t`"
	f, id, n := column{table, "f"}, column{table, "id"}, column{table, "n"}
	risky := []column{f}
	key := func(columns ...column) uniqueKey { return uniqueKey{columns: columns} }
	for name, c := range map[string]struct {
		keys map[string]uniqueKey
		want bool
	}{
		"no key":                          {nil, false},
		"a primary key":                   {map[string]uniqueKey{"PRIMARY": key(id)}, true},
		"a risky primary key":             {map[string]uniqueKey{"PRIMARY": key(id, f), "u": key(n)}, false},
		"a primary key and a risky key":   {map[string]uniqueKey{"PRIMARY": key(id), "u": key(f)}, true},
		"two keys, one of them risky":     {map[string]uniqueKey{"u": key(n), "v": key(f)}, false},
		"a unique key":                    {map[string]uniqueKey{"u": key(n, id)}, true},
		"a key with NULL":                 {map[string]uniqueKey{"u": {[]column{n}, true}}, false},
		"a key with NULL and another key": {map[string]uniqueKey{"u": {[]column{f}, true}, "v": key(n)}, true},
	} {
		assert.Check(t, uniqueKeys{table: c.keys}.identify(table, risky) == c.want, name)
	}
	assert.DeepEqual(t, uniqueKeys{table: {"u": key(n), "v": key(id, f)}}.with(risky), []string{table + ".`v`"})
}

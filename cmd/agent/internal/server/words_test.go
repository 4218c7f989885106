// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import "testing"

// Each engine counts as an engine with rows elsewhere, unless a dump is known to contain its rows.
func TestTablesWithRowsElsewhere(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]bool{
		"InnoDB": false, "MyISAM": false, "Aria": false, "MEMORY": false, "ARCHIVE": false, "CSV": false, "BLACKHOLE": false, "ROCKSDB": false, "": false,
		"MRG_MYISAM": true, "MRG_MyISAM": true, "FEDERATED": true, "CONNECT": true, "OQGRAPH": true, "SPIDER": true, "VP": true,
		"S3": true, "Columnstore": true, "SPHINX": true, "CASSANDRA": true, "an engine of the future": true,
	} {
		if got := (Table{Engine: engine}).HasRowsElsewhere(); got != want {
			t.Errorf("engine %q: %t, want %t", engine, got, want)
		}
	}
}

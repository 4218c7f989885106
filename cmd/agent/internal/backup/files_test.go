// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// CLONE copies to a server of the same version. From 8.0.37 on, it also copies to another version of the same series.
func TestVersionsOfACopy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		may      bool
	}{
		{"8.0.36", "8.0.36", true}, {"8.0.36", "8.0.37", false}, {"8.0.37", "8.0.36", false}, {"8.0.37", "8.0.45", true}, {"8.4.2", "8.4.9", true}, {"8.4.9", "8.4.2", true},
		{"8.0.45", "8.4.2", false}, {"9.6.0", "9.7.4", false}, {"9.7.4", "11.8.9-MariaDB", false},
	} {
		from, _ := server.ParseVersion(c.from)
		to, _ := server.ParseVersion(c.to)
		if may := maySend(from, to); may != c.may {
			t.Errorf("from %s to %s: %t", c.from, c.to, may)
		}
	}
}

// A dump may lack the rows of tables with unusual engines, and it lacks tables in S3. A warning names these tables, and the backup does not
// fail because of them.
func TestEnginesThatADumpOmits(t *testing.T) {
	t.Parallel()
	tables := []server.Table{{Schema: "a", Name: "i", Engine: "InnoDB"}, {Schema: "a", Name: "c", Engine: "Columnstore"}, {Schema: "a", Name: "s", Engine: "S3"}}
	assert.DeepEqual(t, warnings(tables), []string{
		"the backup may have only the definitions of these tables, whose engines can keep rows in other tables, files or servers (1): `a`.`c` (Columnstore)",
		"the backup does not have these tables, because dump programs omit their engine (1): `a`.`s` (S3)",
	})
	scanner := dump.NewScanner()
	scanner.Rows["`a`.`i`"], scanner.Rows["`a`.`c`"] = 1, 2
	assert.NilError(t, covers(scanner, tables))
	delete(scanner.Rows, "`a`.`i`")
	assert.ErrorContains(t, covers(scanner, tables), "the server has 2 tables, the dump 1")
}

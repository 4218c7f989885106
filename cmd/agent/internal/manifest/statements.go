// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import "strings"

// Statement is a statement that a restore runs separately. If it fails, the restore warns. Name describes the object that the statement
// creates.
type Statement struct{ Name, SQL string }

// Names of the objects with statements.
const (
	ObjectsName = "objects.sql"
	ViewsName   = "views.sql"
)

const delimiter = "\n;;\n"

// EncodeStatements writes statements in a form that the database's client can also read.
func EncodeStatements(statements []Statement) string {
	text := "DELIMITER ;;\n"
	for _, s := range statements {
		text += "-- " + strings.ReplaceAll(s.Name, "\n", " ") + "\n" + s.SQL + delimiter
	}
	return text
}

// DecodeStatements reads the output of EncodeStatements.
func DecodeStatements(text string) []Statement {
	_, text, _ = strings.Cut(text, "\n")
	var all []Statement
	for _, part := range strings.Split(text, delimiter) {
		if name, sql, ok := strings.Cut(strings.TrimPrefix(part, "-- "), "\n"); ok {
			all = append(all, Statement{name, sql})
		}
	}
	return all
}

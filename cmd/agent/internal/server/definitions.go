// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// definitions are the queries for all objects except tables and accounts. A row consists of kind, schema, name, and a text that changes
// with the definition. The time of the last change is not sufficient, because the server stores it in whole seconds.
var definitions = []string{
	"SELECT 'schema', SCHEMA_NAME, '', CONCAT_WS(' ', DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME) FROM information_schema.SCHEMATA",
	"SELECT 'view', TABLE_SCHEMA, TABLE_NAME, SHA2(CONCAT_WS(' ', VIEW_DEFINITION, CHECK_OPTION, DEFINER, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION), 256) FROM information_schema.VIEWS",
	"SELECT LOWER(ROUTINE_TYPE), ROUTINE_SCHEMA, SPECIFIC_NAME, SHA2(CONCAT_WS(' ', LAST_ALTERED, ROUTINE_DEFINITION, DEFINER, SECURITY_TYPE, SQL_MODE, DTD_IDENTIFIER, IS_DETERMINISTIC, SQL_DATA_ACCESS, " +
		"ROUTINE_COMMENT, CHARACTER_SET_CLIENT, COLLATION_CONNECTION), 256) FROM information_schema.ROUTINES",
	"SELECT 'parameters', SPECIFIC_SCHEMA, SPECIFIC_NAME, SUM(CRC32(CONCAT_WS(' ', ROUTINE_TYPE, ORDINAL_POSITION, PARAMETER_MODE, PARAMETER_NAME, DTD_IDENTIFIER))) FROM information_schema.PARAMETERS GROUP BY 2, 3",
	"SELECT 'trigger', TRIGGER_SCHEMA, TRIGGER_NAME, SHA2(CONCAT_WS(' ', CREATED, ACTION_STATEMENT, ACTION_ORDER, ACTION_TIMING, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, " +
		"COLLATION_CONNECTION), 256) FROM information_schema.TRIGGERS",
	"SELECT 'event', EVENT_SCHEMA, EVENT_NAME, SHA2(CONCAT_WS(' ', EVENT_DEFINITION, DEFINER, TIME_ZONE, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD, SQL_MODE, STARTS, ENDS, STATUS, ON_COMPLETION, " +
		"EVENT_COMMENT, CHARACTER_SET_CLIENT, COLLATION_CONNECTION), 256) FROM information_schema.EVENTS",
}

// Definitions maps kind and name of each object, except accounts, to a text that changes with the object's definition.
func (c *Conn) Definitions() (map[string]string, error) {
	found := map[string]string{}
	for _, query := range definitions {
		rows, err := c.Rows(query)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			name := row[0] + " " + Quote(row[1])
			if row[2] != "" {
				name += "." + Quote(row[2])
			}
			if !c.Omits(row[1]) {
				found[name] = row[3]
			}
		}
	}
	return found, errors.Join(c.tableDefinitions(found), c.identities(found))
}

// counter matches the AUTO_INCREMENT in a table's definition, which changes with the table's rows.
var counter = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)

// tableDefinitions adds the definitions of tables and sequences. For a broken table, the server's error counts as the definition.
func (c *Conn) tableDefinitions(found map[string]string) error {
	rows, err := c.Rows("SELECT IF(TABLE_TYPE = 'SEQUENCE', 'SEQUENCE', 'TABLE'), TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if c.Omits(row[1]) {
			continue
		}
		name := Quote(row[1]) + "." + Quote(row[2])
		created, err := c.Rows("SHOW CREATE " + row[0] + " " + name)
		switch {
		case err != nil && Code(err) == 0:
			return err
		case err != nil:
			found["table "+name] = fmt.Sprintf("error %d", Code(err))
		case len(created) > 0 && len(created[0]) > 1:
			found["table "+name] = fmt.Sprintf("%x", sha256.Sum256(counter.ReplaceAll([]byte(created[0][1]), nil)))
		}
	}
	return nil
}

// identities adds InnoDB's ID of each table: after a rename, a name can belong to another table with the same definition. It also adds the
// number of renames: tables of other engines have no such ID, and a table can have its former name again after two renames.
func (c *Conn) identities(found map[string]string) error {
	table := "INNODB_SYS_TABLES"
	if c.Version.Flavour == MySQL && c.Version.AtLeast(8, 0, 0) {
		table = "INNODB_TABLES"
	}
	rows, err := c.Rows("SELECT NAME, TABLE_ID FROM information_schema." + table)
	if err != nil && contract.ReasonOf(err) != contract.ReasonAccessDenied { // without the right PROCESS, the IDs cannot be read
		return err
	}
	for _, row := range rows {
		schema, name, _ := strings.Cut(row[0], "/")
		// The server creates and drops internal tables for full-text indexes and for running changes of tables.
		if !c.Omits(schema) && !strings.HasPrefix(strings.ToLower(name), "fts_") && !strings.HasPrefix(name, "#sql") {
			found["table "+row[0]] = row[1]
		}
	}
	status, err := c.Named("SHOW GLOBAL STATUS LIKE 'Com_rename_table'")
	found[renames] = status["Value"]
	return err
}

// renames is the key of the number of renames in the definitions.
const renames = "names of tables"

// IsPhysical reports whether an entry of Definitions describes files of the server. Such an entry may differ between two servers with the
// same objects.
func IsPhysical(name string) bool {
	return name == renames || strings.HasPrefix(name, "table ") && !strings.HasPrefix(name, "table `")
}

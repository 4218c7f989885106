// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/contract"
)

// Words are statements that servers know under different names.
type Words struct {
	// MasterStatus shows where the binary log ends.
	MasterStatus string
	// ReplicaStatus shows what the applier has done.
	ReplicaStatus string
	// ChangeSource, StartApplier and StopReplica steer it.
	ChangeSource, StartApplier, StopReplica string
	// SourceHost is the option of ChangeSource that names a host.
	SourceHost string
	// DumpPosition is the dump program's option that writes the position as a comment.
	DumpPosition string
	// SkipStart is the server's option not to start replication by itself.
	SkipStart string
}

// Words returns those of a version. MySQL renamed them in 8.0.22 to 8.4, MariaDB keeps the old ones.
func (v Version) Words() Words {
	w := Words{MasterStatus: "SHOW MASTER STATUS", ReplicaStatus: "SHOW SLAVE STATUS", ChangeSource: "CHANGE MASTER TO", StartApplier: "START SLAVE SQL_THREAD",
		StopReplica: "STOP SLAVE", SourceHost: "MASTER_HOST", DumpPosition: "--master-data=2", SkipStart: "--skip-slave-start"}
	if v.AtLeast(8, 0, 26) {
		w.ReplicaStatus, w.StartApplier, w.StopReplica = "SHOW REPLICA STATUS", "START REPLICA SQL_THREAD", "STOP REPLICA"
		w.ChangeSource, w.SourceHost = "CHANGE REPLICATION SOURCE TO", "SOURCE_HOST"
		w.DumpPosition, w.SkipStart = "--source-data=2", "--skip-replica-start"
	}
	if v.AtLeast(8, 2, 0) {
		w.MasterStatus = "SHOW BINARY LOG STATUS"
	}
	return w
}

// Position returns where the binary log ends, or nil when the server keeps none.
func (c *Conn) Position() (*contract.Position, error) {
	row, err := c.Named(c.Version.Words().MasterStatus)
	if err != nil || row == nil {
		return nil, err
	}
	p := &contract.Position{File: row["File"], GTID: strings.ReplaceAll(row["Executed_Gtid_Set"], "\n", "")}
	if p.Offset, err = strconv.ParseUint(row["Position"], 10, 64); err != nil {
		return nil, fmt.Errorf("read the position of server %s: %w", c.options.Address, err)
	}
	return p, nil
}

// BinaryLogs returns the names of the binary log's files, oldest first.
func (c *Conn) BinaryLogs() ([]string, error) {
	rows, err := c.Rows("SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row[0]
	}
	return names, nil
}

// system are the schemas that the server makes itself.
var system = map[string]bool{"mysql": true, "sys": true, "information_schema": true, "performance_schema": true, "ndbinfo": true}

// Schemas returns those that are not the server's own.
func (c *Conn) Schemas() ([]string, error) {
	rows, err := c.Rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, row := range rows {
		if !system[strings.ToLower(row[0])] {
			names = append(names, row[0])
		}
	}
	sort.Strings(names)
	return names, nil
}

// Table is one that has rows of its own.
type Table struct {
	Schema, Name, Engine, Created string
	// IsVersioned reports whether the table keeps the former versions of its rows.
	IsVersioned bool
}

// Quoted returns the table's name as statements have it.
func (t Table) Quoted() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Quote quotes the name of a schema or a table.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Tables returns the tables of all Schemas, in the order of their names.
func (c *Conn) Tables() ([]Table, error) {
	rows, err := c.Rows("SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, CREATE_TIME, TABLE_TYPE FROM information_schema.TABLES " +
		"WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2")
	if err != nil {
		return nil, err
	}
	var tables []Table
	for _, row := range rows {
		if !system[strings.ToLower(row[0])] {
			tables = append(tables, Table{Schema: row[0], Name: row[1], Engine: row[2], Created: row[3], IsVersioned: row[4] == "SYSTEM VERSIONED"})
		}
	}
	return tables, nil
}

// definitions select what the server has beside tables: kind, schema, name, and what tells one definition from another.
var definitions = []string{
	"SELECT 'schema', SCHEMA_NAME, '', CONCAT_WS(' ', DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME) FROM information_schema.SCHEMATA",
	"SELECT 'view', TABLE_SCHEMA, TABLE_NAME, SHA2(CONCAT_WS(' ', VIEW_DEFINITION, CHECK_OPTION, DEFINER, SECURITY_TYPE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION), 256) FROM information_schema.VIEWS",
	"SELECT LOWER(ROUTINE_TYPE), ROUTINE_SCHEMA, SPECIFIC_NAME, SHA2(CONCAT_WS(' ', LAST_ALTERED, ROUTINE_DEFINITION, DEFINER, SECURITY_TYPE, SQL_MODE), 256) FROM information_schema.ROUTINES",
	"SELECT 'trigger', TRIGGER_SCHEMA, TRIGGER_NAME, SHA2(CONCAT_WS(' ', CREATED, ACTION_STATEMENT, ACTION_ORDER, DEFINER, SQL_MODE), 256) FROM information_schema.TRIGGERS",
	"SELECT 'event', EVENT_SCHEMA, EVENT_NAME, SHA2(CONCAT_WS(' ', EVENT_DEFINITION, DEFINER, TIME_ZONE, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD, SQL_MODE, STARTS, ENDS, STATUS, ON_COMPLETION), 256) FROM information_schema.EVENTS",
	"SELECT 'sequence', TABLE_SCHEMA, TABLE_NAME, IFNULL(CREATE_TIME, '') FROM information_schema.TABLES WHERE TABLE_TYPE = 'SEQUENCE'",
}

// Definitions returns what the server has beside tables and accounts, by kind and name: a text that changes with the definition.
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
			if !system[strings.ToLower(row[1])] {
				found[name] = row[3]
			}
		}
	}
	return found, nil
}

// Variable returns a global variable; "" for one that the server does not have.
func (c *Conn) Variable(name string) (string, error) {
	row, err := c.Named("SHOW GLOBAL VARIABLES LIKE '" + name + "'")
	return row["Value"], err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// Words holds the statements and options whose names differ between servers.
type Words struct {
	// MasterStatus shows the end of the binary log.
	MasterStatus string
	// ReplicaStatus shows the progress of the applier.
	ReplicaStatus string
	// ChangeSource, StartApplier and StopReplica control the applier.
	ChangeSource, StartApplier, StopReplica string
	// ForgetReplica removes the replication settings, and ForgetGTIDs removes the set of executed GTIDs and the binary log.
	ForgetReplica, ForgetGTIDs string
	// SourceHost is the option of ChangeSource that names a host.
	SourceHost string
	// DumpPosition is the dump program's option that writes the position as a comment.
	DumpPosition string
	// SkipStart is the server option that prevents replication from starting with the server.
	SkipStart string
}

// Words returns the statements for a version. MySQL renamed them between 8.0.22 and 8.4. MariaDB keeps the old names.
func (v Version) Words() Words {
	w := Words{MasterStatus: "SHOW MASTER STATUS", ReplicaStatus: "SHOW SLAVE STATUS", ChangeSource: "CHANGE MASTER TO", StartApplier: "START SLAVE SQL_THREAD",
		StopReplica: "STOP SLAVE", ForgetReplica: "RESET SLAVE ALL", ForgetGTIDs: "RESET MASTER", SourceHost: "MASTER_HOST", DumpPosition: "--master-data=2", SkipStart: "--skip-slave-start"}
	if v.AtLeast(8, 0, 26) {
		w.ReplicaStatus, w.StartApplier, w.StopReplica, w.ForgetReplica = "SHOW REPLICA STATUS", "START REPLICA SQL_THREAD", "STOP REPLICA", "RESET REPLICA ALL"
		w.ChangeSource, w.SourceHost = "CHANGE REPLICATION SOURCE TO", "SOURCE_HOST"
		w.DumpPosition, w.SkipStart = "--source-data=2", "--skip-replica-start"
	}
	if v.AtLeast(8, 2, 0) {
		w.MasterStatus, w.ForgetGTIDs = "SHOW BINARY LOG STATUS", "RESET BINARY LOGS AND GTIDS"
	}
	return w
}

// Position returns the end of the binary log, or nil if the server has none.
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

// system are the schemas that the server creates. If names are case-sensitive, a schema SYS belongs to a user. Otherwise the server reports
// its name in lower case.
var system = map[string]bool{"mysql": true, "sys": true, "information_schema": true, "performance_schema": true}

// Only sets the schemas to which Schemas, Tables and Definitions are restricted. If schemas is empty, they include all schemas
// except the server's own.
func (c *Conn) Only(schemas []string) {
	c.only = nil
	for _, name := range schemas {
		if c.only == nil {
			c.only = map[string]bool{}
		}
		c.only[name] = true
	}
}

// Omits reports whether a schema belongs to the server, or is not among the schemas of Only.
func (c *Conn) Omits(schema string) bool { return system[schema] || c.only != nil && !c.only[schema] }

// Schemas returns the schemas without those of the server itself.
func (c *Conn) Schemas() ([]string, error) {
	rows, err := c.Rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, row := range rows {
		if !c.Omits(row[0]) {
			names = append(names, row[0])
		}
	}
	sort.Strings(names)
	return names, nil
}

// Table is a base table.
type Table struct {
	Schema, Name, Engine, Created string
	// IsVersioned reports whether the table keeps former versions of its rows.
	IsVersioned bool
}

// dumped are the engines whose tables keep their rows in the data folder, and whose rows dump programs write. Blackhole keeps no rows. A table
// without an engine is broken.
var dumped = strings.Fields("INNODB MYISAM ARIA MEMORY HEAP ARCHIVE CSV BLACKHOLE ROCKSDB TOKUDB MROONGA NDB NDBCLUSTER")

// HasRowsElsewhere reports whether the table may show rows of other tables, files or servers. It is true for each unknown engine: dump programs
// may omit these rows, and a restored table may not have them.
func (t Table) HasRowsElsewhere() bool {
	return t.Engine != "" && !slices.Contains(dumped, strings.ToUpper(t.Engine))
}

// IsOmitted reports whether dump programs omit the table and its definition.
func (t Table) IsOmitted() bool { return strings.EqualFold(t.Engine, "S3") }

// Quoted returns the table's name with quotes, for a statement.
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
		if !c.Omits(row[0]) {
			tables = append(tables, Table{Schema: row[0], Name: row[1], Engine: row[2], Created: row[3], IsVersioned: row[4] == "SYSTEM VERSIONED"})
		}
	}
	return tables, nil
}

// Variable returns a global variable; "" for a variable that the server does not have.
func (c *Conn) Variable(name string) (string, error) {
	row, err := c.Named("SHOW GLOBAL VARIABLES LIKE '" + name + "'")
	return row["Value"], err
}

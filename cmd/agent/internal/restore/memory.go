// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// memorySchema holds copies of the rows of MEMORY tables. The server loses these rows when it restarts for a replay, but the replay needs
// them.
const memorySchema = "d3os-restore-memory"

// keepMemory copies the rows of MEMORY tables to memorySchema.
func (i *Instance) keepMemory(ctx context.Context) error {
	return i.withMemory(ctx, func(conn *server.Conn, tables [][2]string) error {
		if err := conn.Do("CREATE DATABASE " + server.Quote(memorySchema)); err != nil {
			return err
		}
		for n, table := range tables {
			columns, err := columnsOf(conn, table)
			if err != nil {
				return err
			}
			if err := conn.Do(fmt.Sprintf("CREATE TABLE %s.t%d ENGINE = InnoDB AS SELECT %s FROM %s", server.Quote(memorySchema), n, columns, quoted(table))); err != nil {
				return err
			}
		}
		return nil
	})
}

// fillMemory restores the rows of MEMORY tables from memorySchema, after a restart of the server.
func (i *Instance) fillMemory(ctx context.Context) error {
	return i.withMemory(ctx, func(conn *server.Conn, tables [][2]string) error {
		for n, table := range tables {
			columns, err := columnsOf(conn, table)
			if err != nil {
				return err
			}
			if err := conn.Do(fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s.t%d", quoted(table), columns, columns, server.Quote(memorySchema), n)); err != nil {
				return err
			}
		}
		return conn.Do("DROP DATABASE " + server.Quote(memorySchema))
	})
}

// withMemory calls do if the server has MEMORY tables.
func (i *Instance) withMemory(ctx context.Context, do func(conn *server.Conn, tables [][2]string) error) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := conn.Tables()
	if err != nil {
		return err
	}
	var tables [][2]string
	for _, table := range all {
		if table.Engine == "MEMORY" {
			tables = append(tables, [2]string{table.Schema, table.Name})
		}
	}
	if len(tables) == 0 {
		return nil
	}
	if err := conn.Do("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"); err != nil {
		return err
	}
	return do(conn, tables)
}

func quoted(table [2]string) string { return server.Quote(table[0]) + "." + server.Quote(table[1]) }

// columnsOf lists the columns of a table, including invisible columns and excluding generated ones.
func columnsOf(conn *server.Conn, table [2]string) (string, error) {
	rows, err := conn.Rows("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND IFNULL(GENERATION_EXPRESSION, '') = '' ORDER BY ORDINAL_POSITION",
		table[0], table[1])
	var names []string
	for _, row := range rows {
		names = append(names, server.Quote(row[0]))
	}
	return strings.Join(names, ", "), err
}

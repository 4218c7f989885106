// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Rows maps schema.table and the primary key (the first column) to the row.
type Rows map[string]map[string]string

// String lists the rows in order.
func (r Rows) String() string {
	var lines []string
	for table, rows := range r {
		for key, row := range rows {
			lines = append(lines, table+" "+key+" "+row)
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// Differ returns the first lines that only one of the two has; "" if both have the same rows.
func Differ(got, want Rows) string {
	has := func(r Rows) map[string]bool {
		set := map[string]bool{}
		for _, line := range strings.Split(r.String(), "\n") {
			set[line] = true
		}
		return set
	}
	g, w := has(got), has(want)
	var text []string
	for line := range g {
		if !w[line] && len(text) < 5 {
			text = append(text, "too much: "+line)
		}
	}
	for line := range w {
		if !g[line] && len(text) < 10 {
			text = append(text, "missing: "+line)
		}
	}
	return strings.Join(text, "\n")
}

// At returns the rows at a position. It computes them from the row events of all files of the binary log. It uses neither the dump nor the
// agent.
func (s *Server) At(p contract.Position) Rows {
	s.T.Helper()
	rows := Rows{}
	files, err := filepath.Glob(filepath.Join(s.Data, "binlog.[0-9]*"))
	if err != nil || len(files) == 0 {
		s.T.Fatalf("no binary log in %s: %v", s.Data, err)
	}
	sort.Strings(files)
	for _, file := range files {
		name := filepath.Base(file)
		if name > p.File {
			break
		}
		parser := replication.NewBinlogParser()
		parser.SetFlavor(s.Flavour)
		err := parser.ParseFile(file, 0, func(e *replication.BinlogEvent) error {
			if name == p.File && uint64(e.Header.LogPos) > p.Offset {
				return nil
			}
			if event, ok := e.Event.(*replication.RowsEvent); ok {
				rows.apply(e.Header.EventType, event)
			}
			return nil
		})
		// The last file of a killed server may end within an event.
		if err != nil && name == p.File && !strings.Contains(err.Error(), "EOF") {
			s.T.Fatalf("read %s: %v", file, err)
		}
	}
	return rows
}

func (r Rows) apply(kind replication.EventType, e *replication.RowsEvent) {
	table := string(e.Table.Schema) + "." + string(e.Table.Table)
	if r[table] == nil {
		r[table] = map[string]string{}
	}
	for i, row := range e.Rows {
		key := fmt.Sprint(row[0])
		switch kind {
		case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
			delete(r[table], key)
		case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
			if i%2 == 0 {
				delete(r[table], key)
				continue
			}
			fallthrough
		default:
			r[table][key] = text(row[1:])
		}
	}
}

func text(row []any) string {
	parts := make([]string, len(row))
	for i, value := range row {
		if b, ok := value.([]byte); ok {
			value = string(b)
		}
		parts[i] = fmt.Sprintf("%q", fmt.Sprint(value))
	}
	return strings.Join(parts, ",")
}

// Read returns the rows of all tables of a server. A table without rows has an empty entry.
func Read(ctx context.Context, o server.Options) (Rows, error) {
	conn, err := server.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tables, err := conn.Tables()
	if err != nil {
		return nil, err
	}
	rows := Rows{}
	for _, table := range tables {
		found, err := conn.Rows("SELECT * FROM " + table.Quoted())
		if err != nil {
			return nil, err
		}
		of := map[string]string{}
		for _, row := range found {
			values := make([]any, len(row))
			for i := range row {
				values[i] = row[i]
			}
			of[row[0]] = text(values[1:])
		}
		rows[table.Schema+"."+table.Name] = of
	}
	return rows, nil
}

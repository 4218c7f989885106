// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Check makes the server check each table. If rows is not nil, Check also compares the numbers of rows, by quoted name. It returns the
// numbers of tables and rows. One connection checks while the other counts. Each reads all data once; for 1 GiB this takes a tenth of the
// restore's time.
func Check(checker, counter *server.Conn, backup *manifest.Backup, rows map[string]int64) (tables int, total int64, err error) {
	all, err := counter.Tables()
	if err != nil {
		return 0, 0, err
	}
	rows = maps.Clone(rows)
	found := withRows(all, rows)
	var problems map[string]string
	var counts map[string]int64
	var checkErr, countErr error
	var both sync.WaitGroup
	both.Go(func() { problems, checkErr = checkTables(checker, found) })
	both.Go(func() { counts, countErr = countRows(counter, found) })
	both.Wait()
	if checkErr != nil || countErr != nil && len(problems) == 0 { // a table with a problem may have fewer rows
		return 0, 0, errors.Join(checkErr, countErr)
	}
	var wrong, broken []string
	for _, table := range found {
		name := table.Quoted()
		n := counts[name]
		total += n
		if problem := problems[name]; problem != "" {
			broken = append(broken, name+": "+problem)
		} else if want, ok := rows[name]; rows != nil && (!ok || want != n) {
			wrong = append(wrong, fmt.Sprintf("%s has %d rows, but %d rows in the manifest", name, n, want))
		}
	}
	for name := range rows {
		if _, ok := counts[name]; !ok {
			wrong = append(wrong, name+" is missing")
		}
	}
	switch {
	case len(broken) > 0: // the checksums of the backup's objects were right, so this damage does not prove that the backup is damaged
		return len(all), total, contract.Errorf(contract.ReasonMismatch, "backup %s was restored, but the server finds damage in the tables that it wrote: %s", backup.ID, strings.Join(broken[:min(len(broken), 10)], "; "))
	case len(wrong) > 0:
		return len(all), total, ofBackup{contract.Errorf(contract.ReasonMismatch, "backup %s was restored, but: %s", backup.ID, strings.Join(wrong[:min(len(wrong), 10)], "; "))}
	}
	return len(all), total, nil
}

// withRows returns the tables that store rows. It removes the other tables from expected: a MERGE table shows rows of
// other tables, and a FEDERATED table shows rows of another server. A table that does not exist stays in expected.
func withRows(tables []server.Table, expected map[string]int64) []server.Table {
	return slices.DeleteFunc(slices.Clone(tables), func(t server.Table) bool {
		if t.HasRowsElsewhere() {
			delete(expected, t.Quoted())
		}
		return t.HasRowsElsewhere()
	})
}

// checkTables returns the problems that the server finds in tables, by quoted name.
func checkTables(conn *server.Conn, tables []server.Table) (map[string]string, error) {
	problems := map[string]string{}
	for _, table := range tables {
		problem, err := checkTable(conn, table)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems[table.Quoted()] = problem
		}
	}
	return problems, nil
}

// CountRows returns the numbers of rows of all tables except the system's, by quoted name.
func CountRows(conn *server.Conn) (map[string]int64, error) {
	tables, err := conn.Tables()
	if err != nil {
		return nil, err
	}
	return countRows(conn, withRows(tables, nil))
}

// countRows returns the number of rows of tables, by quoted name.
func countRows(conn *server.Conn, tables []server.Table) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, table := range tables {
		statement := "SELECT COUNT(*) FROM " + table.Quoted()
		if table.IsVersioned {
			statement += " FOR SYSTEM_TIME ALL"
		}
		text, err := conn.Value(statement)
		if err != nil {
			return counts, err
		}
		if counts[table.Quoted()], err = strconv.ParseInt(text, 10, 64); err != nil {
			return counts, fmt.Errorf("count the rows of %s: %w", table.Quoted(), err)
		}
	}
	return counts, nil
}

// checkTable returns the problem that the server finds in a table; "" for none. With QUICK, InnoDB reads each index
// once and checks the pages' checksums, the order of keys and the number of entries. InnoDB skips the pointers between
// pages. After the load of a dump, they need no check, because this server has just written them. Other engines read no
// rows with QUICK.
func checkTable(conn *server.Conn, table server.Table) (string, error) {
	statement := "CHECK TABLE " + table.Quoted()
	if strings.EqualFold(table.Engine, "InnoDB") {
		statement += " QUICK"
	}
	rows, err := conn.Rows(statement)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		// A message of type "note" means that the engine cannot check the table.
		if kind, text := strings.ToLower(row[2]), row[3]; kind == "error" || kind == "status" && text != "OK" && !strings.Contains(text, "up to date") {
			return text, nil
		}
	}
	return "", nil
}

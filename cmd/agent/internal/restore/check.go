// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Check has the server check each table, and where rows is given compares the number of rows with it, by quoted name. It
// returns the tables and rows that it has found.
func Check(conn *server.Conn, backup *manifest.Backup, rows map[string]int64) (tables int, total int64, err error) {
	found, err := conn.Tables()
	if err != nil {
		return 0, 0, err
	}
	var wrong []string
	seen := map[string]bool{}
	for _, table := range found {
		name := table.Quoted()
		seen[name] = true
		if problem, err := checkTable(conn, name); err != nil {
			return 0, 0, err
		} else if problem != "" {
			wrong = append(wrong, name+": "+problem)
			continue
		}
		text, err := conn.Value("SELECT COUNT(*) FROM " + name)
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("count the rows of %s: %w", name, err)
		}
		total += n
		if want, ok := rows[name]; rows != nil && (!ok || want != n) {
			wrong = append(wrong, fmt.Sprintf("%s has %d rows, the manifest says %d", name, n, want))
		}
	}
	for name := range rows {
		if !seen[name] {
			wrong = append(wrong, name+" is missing")
		}
	}
	if len(wrong) > 0 {
		return len(found), total, contract.Errorf(contract.ReasonMismatch, "backup %s was restored, but: %s", backup.ID, strings.Join(wrong[:min(len(wrong), 10)], "; "))
	}
	return len(found), total, nil
}

// checkTable returns what the server finds to be wrong with a table; "" for nothing.
func checkTable(conn *server.Conn, name string) (string, error) {
	rows, err := conn.Rows("CHECK TABLE " + name)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		// note: the engine has no such check
		if kind, text := strings.ToLower(row[2]), row[3]; kind == "error" || kind == "status" && text != "OK" && !strings.Contains(text, "up to date") {
			return text, nil
		}
	}
	return "", nil
}

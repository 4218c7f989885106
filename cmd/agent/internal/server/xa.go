// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import "slices"

// A server with super_read_only refuses COMMIT. However, it accepts XA PREPARE and XA COMMIT of a transaction that has written before
// (MySQL 9.7).

// Prepared returns the number of prepared XA transactions that the account may list.
func (c *Conn) Prepared() int {
	rows, err := c.Rows("XA RECOVER")
	if err != nil {
		return 0
	}
	return len(rows)
}

// WritingXA returns the open transactions that have written and may be XA transactions.
func (c *Conn) WritingXA() (map[string]bool, error) {
	rows, err := c.Rows("SELECT trx_id, trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	// Without the performance schema, every open transaction may be an XA transaction.
	known, _ := c.Rows("SELECT t.PROCESSLIST_ID FROM performance_schema.events_transactions_current e JOIN performance_schema.threads t USING (THREAD_ID) " +
		"WHERE e.STATE = 'ACTIVE' AND e.XA_STATE IS NULL AND t.PROCESSLIST_ID IS NOT NULL")
	open := map[string]bool{}
	for _, row := range rows {
		if !slices.ContainsFunc(known, func(other []string) bool { return other[0] == row[1] }) {
			open["transaction "+row[0]+" of connection "+row[1]] = true
		}
	}
	return open, nil
}

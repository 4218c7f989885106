// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
	"gotest.tools/v3/assert"
)

// Explain returns the last error in the output of a program or server, without the statements and values that it quotes.
func TestExplain(t *testing.T) {
	t.Parallel()
	const row = "4111-1111-1111-1111"
	big := "--------------\nINSERT INTO `cards` VALUES (1,'" + row + "'" + strings.Repeat(",'"+row+"'", 500) + ")\n--------------\n\n"
	for name, c := range map[string]struct {
		explain func(string) string
		words   string
		want    string
	}{
		"MariaDB's client": {Explain, big + "ERROR 1062 (23000) at line 9: Duplicate entry '" + row + "' for key 'PRIMARY'\n", "error 1062 (23000) at line 9: Duplicate entry '…' for key …"},
		"MySQL's client":   {Explain, "ERROR 1366 (HY000) at line 12: Incorrect integer value: '" + row + "' for column 'n' at row 1", "error 1366 (HY000) at line 12: Incorrect … value: '…' for column '…' at row …"},
		"a full table":     {Explain, big + "ERROR 1114 (HY000) at line 9: The table 'cards' is full", "error 1114 (HY000) at line 9: The table '…' is full"},
		"an error number of MariaDB only": {Explain, "ERROR 4025 (23000) at line 3: CONSTRAINT `c` failed for `a`.`" + row + "`",
			"error 4025 (23000) at line 3: a CHECK constraint failed"},
		"a dump of a table":   {Explain, "mysqldump: Error 2013: Lost connection to server during query when dumping table `cards` at row: 7", "error 2013 in table `cards`"},
		"a dump of a view":    {Explain, "mysqldump: Couldn't execute 'SHOW FIELDS FROM `v`': View 'a.v' references invalid table(s) (1356)", "error 1356 in 'SHOW FIELDS FROM `v`': View '….…' references invalid"},
		"a dump's statement":  {Explain, "mysqldump: Couldn't execute 'SELECT * FROM t WHERE card = " + row + "': Incorrect value: '" + row + "' (1292)", "error 1292: Truncated incorrect"},
		"a program's message": {Explain, "mysqldump: [ERROR] unknown variable 'nonsense=" + row + "'.", "mysqldump: [ERROR] unknown variable '…'."},
		"nothing":             {Explain, "", "it gave no reason"},
		"only a statement":    {Explain, big, "it gave no reason"},
		"a server's log": {ExplainServer, "2026-01-01 [ERROR] InnoDB: Cannot allocate memory for the buffer pool\n[Note] x\nQuery (0x7f): INSERT INTO cards VALUES ('" + row + "')\n",
			"the server's memory is not enough: 2026-01-01 [ERROR] InnoDB: Cannot allocate memory for the buffer pool"},
		"a server's log of its applier": {ExplainServer, "[ERROR] Slave SQL: Error 'Duplicate entry '" + row + "' for key 'PRIMARY'' on query. Query: 'INSERT " + row + "', Internal MariaDB error code: 1062",
			"error 1062: Duplicate entry '…' for key …"},
		"a cause and its consequences": {ExplainServer, "[ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.\n[ERROR] [MY-012954] [InnoDB] Cannot initialize AIO sub-system\n" +
			"[ERROR] [MY-012930] [InnoDB] Plugin initialization aborted with error Generic error.\n[ERROR] [MY-010334] [Server] Failed to initialize DD Storage Engine\n" +
			"[ERROR] [MY-010020] [Server] Data Dictionary initialization failed.\n[ERROR] [MY-010119] [Server] Aborting\n",
			"the node allows no more asynchronous I/O (fs.aio-max-nr): [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.; [ERROR] [MY-012954]"},
		"a cause in MariaDB": {ExplainServer, "[ERROR] InnoDB: Write to file ./ibtmp1 failed: No space left on device\n[ERROR] Plugin 'InnoDB' init function returned error.\n" +
			"[ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.\n[ERROR] Unknown/unsupported storage engine: InnoDB\n[ERROR] Aborting\n",
			"no space left on the volume: [ERROR] InnoDB: Write to file ./ibtmp1 failed: No space left on device"},
		"only a consequence": {ExplainServer, "[ERROR] [MY-010119] [Server] Aborting\n", "[ERROR] [MY-010119] [Server] Aborting"},
		"a crash":            {ExplainServer, "2026-01-01 mysqld got signal 11 ;\nQuery (0x7f): INSERT INTO cards VALUES ('" + row + "')\n", "its log names no error"},
	} {
		got := c.explain(c.words)
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "4111") {
			t.Errorf("%s: %q, wanted %q", name, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"Could not execute Write_rows_v1 event on table shop.cards; Duplicate entry '" + row + "' for key 'PRIMARY', Error_code: 1062; handler error HA_ERR_FOUND_DUPP_KEY; the event's master log FIRST, end_log_pos 731": "error 1062: Duplicate entry '…' for key … (Write_rows_v1 of table shop.cards), in the event that ends at 731",
		"Error 'Operation ALTER USER failed for 'b'@'%'' on query. Default database: ''. Query: 'ALTER USER 'b'@'%' IDENTIFIED BY '" + row + "''":                                                                          "error 1396: Operation … failed for … (ALTER USER 'b'@'%')",
		"Worker 1 failed executing transaction 'ANONYMOUS' at source log , end_log_pos 951; Error 'Operation CREATE USER failed for 'x'@'%'' on query. Query: 'CREATE USER x AS '" + row + "'', Error_code: MY-001396":     "error 1396: Operation … failed for … (CREATE USER 'x'@'%'), in the event that ends at 951",
	} {
		if got := ExplainReplay("1396", text); got != want || strings.Contains(got, "4111") {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
}

// The server's error about a statement with a password may quote that statement.
func TestPasswordsInErrors(t *testing.T) {
	t.Parallel()
	err := about("ALTER USER 'a'@'%' IDENTIFIED BY 'secret'", &mysql.MyError{Code: 1064, State: "42000", Message: "You have an error near 'BY 'secret''"})
	assert.Assert(t, !strings.Contains(err.Error(), "secret"), err.Error())
	assert.Assert(t, strings.Contains(err.Error(), "error 1064 (42000)"), err.Error())
	assert.Equal(t, Code(err), uint16(1064))
	assert.Assert(t, errors.As(err, new(*mysql.MyError)))
}

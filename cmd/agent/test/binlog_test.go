// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// changed makes a backup, runs statements, and restores to the end of the archive. It returns the server, the rows, and the outcome.
func changed(t *testing.T, s *rig.Server, statements ...string) (rig.Rows, restore.Outcome) {
	t.Helper()
	identity, to := key(t), folder(t)
	a := archive(s, to, identity, time.Second)
	defer func() { a.stop(); a.done.Wait() }()
	_, _, err := backup.Run(t.Context(), options(s, to, identity))
	assert.NilError(t, err)
	s.Exec(statements...)
	conn, err := server.Connect(t.Context(), s.Root())
	assert.NilError(t, err)
	defer conn.Close()
	end, err := conn.Now()
	assert.NilError(t, err)
	rig.Until(t, "the archive", func() bool { return a.reached().After(end) })
	rows, out, err := attempt(t.Context(), t, s.Flavour, to, "latest", &restore.Until{}, identity)
	assert.NilError(t, err)
	return rows, out
}

// A log of compressed events is replayed up to its last statement. That statement is in the compressed event that ends a transaction.
func TestCompressedBinaryLogIsReplayedWhole(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			more := map[string][]string{server.MariaDB: {"--log-bin-compress=ON", "--log-bin-compress-min-len=10"}, server.MySQL: {"--binlog-transaction-compression=ON"}}
			s := rig.Start(t, flavour, more[flavour]...)
			s.Exec("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, b VARCHAR(4000))")
			comment := strings.Repeat("long ", 80)
			rows, out := changed(t, s, "INSERT INTO a.t VALUES (1, REPEAT('x', 3000))", "XA START 'x'", "INSERT INTO a.t VALUES (2, 'y')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'",
				"CREATE TABLE a.late (id INT PRIMARY KEY) COMMENT='"+comment+"'", "INSERT INTO a.late VALUES (7)", "CREATE TABLE a.last (id INT PRIMARY KEY) COMMENT='"+comment+"'")
			if rows["a.last"] == nil || len(rows["a.late"]) != 1 || len(rows["a.t"]) != 2 || out.Transactions != 6 {
				t.Errorf("restored %d transactions: %v", out.Transactions, rows)
			}
		})
	}
}

// A binary log without the row changes of every statement is not archived: a restore to a point in time would lack those changes.
func TestLogWithoutEveryChangeIsRefused(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		for option, says := range map[string]string{"--binlog-ignore-db=a": "leaves out", "--binlog-do-db=a": "leaves out", "--binlog-format=STATEMENT": "STATEMENT"} {
			t.Run(flavour+" "+option, func(t *testing.T) {
				t.Parallel()
				s := rig.Start(t, flavour, option)
				ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
				defer cancel()
				err := binlog.Archive(ctx, binlog.Options{Server: s.ArchiveOptions(), Store: folder(t), Interval: time.Second, Archived: func(manifest.Head) { cancel() }})
				assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
				assert.ErrorContains(t, err, says)
			})
		}
	}
}

// setting matches the charts' settings of the binary log.
var setting = regexp.MustCompile(`(?m)^(\S*log_bin_\S+) = (\S+)$`)

// With the settings of either chart, an account without SUPER creates triggers and functions. Servers with a binary log refuse that by default
// (error 1419). MySQL has a binary log by default.
func TestServicesCreateTriggersWithABinaryLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flavour    string
		defaultLog bool
		file       string
	}{
		"MariaDB":                      {server.MariaDB, false, "mysql/files/triggers.cnf"},
		"MySQL":                        {server.MySQL, false, "mysql/files/triggers.cnf"},
		"MySQL with its default":       {server.MySQL, true, "mysql/files/triggers.cnf"},
		"MySQL, a member of a cluster": {server.MySQL, false, "mysqlcluster/files/my.cnf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../../helm-charts/" + test.file)
			assert.NilError(t, err)
			found := setting.FindStringSubmatch(string(text))
			assert.Assert(t, found != nil, "%s has no setting for triggers", test.file)
			s := rig.Start(t, test.flavour, "--"+found[1]+"="+found[2])
			if s.DefaultLog = test.defaultLog; test.defaultLog {
				s.Kill()
				s.Up()
			}
			s.Exec("CREATE DATABASE shop", "CREATE TABLE shop.t (a INT)", "CREATE USER app@'%' IDENTIFIED BY 'p'", "GRANT ALL ON shop.* TO app@'%'")
			conn, err := server.Connect(t.Context(), server.Options{Address: s.Options().Address, User: "app", Password: "p"})
			assert.NilError(t, err)
			defer conn.Close()
			for _, statement := range []string{"CREATE TRIGGER shop.g BEFORE INSERT ON shop.t FOR EACH ROW SET NEW.a = 7", "CREATE FUNCTION shop.f() RETURNS INT RETURN RAND() * 0 + 7",
				"INSERT INTO shop.t VALUES (shop.f())", "ALTER FUNCTION shop.f COMMENT 'b'", "DROP TRIGGER shop.g", "DROP FUNCTION shop.f"} {
				assert.NilError(t, conn.Do(statement), statement)
			}
			on := map[string]string{server.MariaDB: "ON", server.MySQL: "1"}[test.flavour]
			assert.Equal(t, s.Ask("SELECT CONCAT(@@log_bin, @@binlog_format, MAX(a)) FROM shop.t"), on+"ROW7")
		})
	}
}

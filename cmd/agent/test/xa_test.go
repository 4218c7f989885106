// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// prepare prepares XA transactions. Each inserts a row with the transaction's name.
func (o *original) prepare(names ...string) {
	for _, name := range names {
		o.Exec("XA START '"+name+"'", "INSERT INTO shop.flight VALUES ('"+name+"')", "XA END '"+name+"'", "XA PREPARE '"+name+"'")
	}
}

// A restored XA transaction is committed or rolled back, as on the server. It may have been prepared in an earlier log
// file than the file of the backup's position.
func TestPreparedBeforeTheFileOfTheBackup(t *testing.T) {
	rig.Long(t)
	for name, more := range map[string][]string{"mariadb": nil, "mysql": nil, "mysql compressed": {"--binlog-transaction-compression=ON"}, "mysql files": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flavour, _, _ := strings.Cut(name, " ")
			o := observed(t, rig.Start(t, flavour, more...))
			o.Exec("CREATE DATABASE shop", "CREATE TABLE shop.flight (name VARCHAR(9) PRIMARY KEY)")
			o.prepare("over")
			o.Exec("FLUSH BINARY LOGS")
			o.prepare("kept", "dropped")
			o.Exec("XA COMMIT 'over'", "FLUSH BINARY LOGS", "INSERT INTO shop.flight VALUES ('plain')", "FLUSH BINARY LOGS")
			o.prepare("late")
			o.isCopied = name == "mysql files"
			o.backup()
			made, err := catalogue.Find(t.Context(), o.to, "latest")
			assert.NilError(t, err)
			assert.Equal(t, made.Manifest.Base == manifest.Physical, o.isCopied, "%q", made.Manifest.Warnings)
			assert.Equal(t, made.Manifest.PreparedFrom, "binlog.000002")
			assert.Assert(t, !made.Manifest.LogBegan.IsZero() && len(made.Manifest.Warnings) == 0, "%s %q", made.Manifest.LogBegan, made.Manifest.Warnings)
			before := o.LogEnd()
			o.Exec("XA COMMIT 'kept'", "XA ROLLBACK 'dropped'", "XA COMMIT 'late'")
			o.settled()
			for _, c := range []struct {
				until restore.Until
				want  string
			}{{restore.Until{}, o.Ask("SELECT name FROM shop.flight ORDER BY name")}, {restore.Until{Position: &before}, "over\nplain"}} {
				r, _ := o.restored(&c.until)
				assert.Equal(t, r.Ask("SELECT name FROM shop.flight ORDER BY name"), c.want)
				r.Kill()
			}
		})
	}
}

// An XA transaction is prepared, but the server has removed the log file with it. The backup names the transaction, or warns if the account
// may not list XA transactions. A restore to a point in time after the transaction's end is refused, and the message names the transaction.
// A restore to an earlier time succeeds.
func TestPreparedAndNotInTheLog(t *testing.T) {
	t.Parallel()
	s := rig.Start(t, server.MySQL)
	s.Exec("CREATE DATABASE shop", "CREATE TABLE shop.flight (name VARCHAR(9) PRIMARY KEY)")
	(&original{Server: s}).prepare("gone")
	s.Exec("FLUSH BINARY LOGS")
	s.Exec("PURGE BINARY LOGS TO '" + s.LogEnd().File + "'")
	o := observed(t, s)
	for statement, want := range map[string]string{
		"GRANT XA_RECOVER_ADMIN ON *.* TO ":    "x'676f6e65',x'',1",
		"REVOKE XA_RECOVER_ADMIN ON *.* FROM ": "grant the account XA_RECOVER_ADMIN",
	} {
		o.Exec("SET SQL_LOG_BIN = 0", statement+rig.Account+"@'%'")
		made, _, err := backup.Run(t.Context(), options(s, o.to, o.identity))
		assert.NilError(t, err)
		assert.Assert(t, len(made.Warnings) == 1 && strings.Contains(made.Warnings[0], want), "%q", made.Warnings)
	}
	before := o.LogEnd()
	o.Exec("XA COMMIT 'gone'", "INSERT INTO shop.flight VALUES ('plain')")
	o.settled()
	_, _, err := o.build(&restore.Until{})
	assert.Equal(t, contract.ReasonOf(err), contract.ReasonNotFound)
	assert.ErrorContains(t, err, "XA transaction x'676f6e65',x'',1")
	_, _, err = o.build(&restore.Until{Position: &before})
	assert.NilError(t, err)
}

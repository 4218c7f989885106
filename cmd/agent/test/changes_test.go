// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// A definition changes during a dump, and the agent discards the dump. Otherwise the dump could contain the new
// definition, and the replay of the log would change it a second time. A table that gets the name of another table
// could be in the dump twice. Creation times do not show these changes, because servers store them in whole seconds.
func TestChangedDefinitionsAreSeen(t *testing.T) {
	rig.Long(t)
	const swap = "RENAME TABLE x.a TO x.c, x.b TO x.a, x.c TO x.b;"
	changes := []string{
		swap, swap + swap, "RENAME TABLE x.ma TO x.mc, x.mb TO x.ma, x.mc TO x.mb", "ALTER TABLE x.parts EXCHANGE PARTITION p1 WITH TABLE x.alone", "ALTER TABLE x.parts TRUNCATE PARTITION p1",
		"TRUNCATE TABLE x.a", "DROP TABLE x.alone; CREATE TABLE x.alone (id INT PRIMARY KEY)", "ALTER TABLE x.a ADD COLUMN more INT", "ALTER TABLE x.a COMMENT 'changed'", "ALTER TABLE x.a ADD INDEX (n, id)",
		"ALTER TABLE x.child ADD CONSTRAINT g FOREIGN KEY (id) REFERENCES x.a (id)", "ALTER TABLE x.a ADD CONSTRAINT c CHECK (n < 100)", "ALTER TABLE x.ma ADD COLUMN more INT",
		"CREATE OR REPLACE VIEW x.v AS SELECT 2 AS a", "ALTER EVENT x.e COMMENT 'changed'", "DROP PROCEDURE x.p; CREATE PROCEDURE x.p(INOUT b INT) SELECT 1", "ALTER PROCEDURE x.p COMMENT 'changed'",
		"ALTER DATABASE x COLLATE utf8mb4_bin",
	}
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, all := rig.Start(t, flavour), changes
			s.Exec("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY, n INT, KEY n (n))", "CREATE TABLE x.b LIKE x.a", "CREATE TABLE x.child (id INT PRIMARY KEY)",
				"CREATE TABLE x.parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))", "CREATE TABLE x.alone (id INT PRIMARY KEY)",
				"CREATE TABLE x.ma (id INT) ENGINE=MyISAM", "CREATE TABLE x.mb LIKE x.ma", "CREATE VIEW x.v AS SELECT 1 AS a", "CREATE EVENT x.e ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE PROCEDURE x.p(a INT) SELECT 1")
			if flavour == server.MariaDB {
				s.Exec("CREATE SEQUENCE x.s")
				all = append(slices.Clone(all), "ALTER SEQUENCE x.s INCREMENT 3")
			}
			for _, change := range all {
				o := options(s, folder(t), nil)
				o.Tries, o.DumpProgram = 1, slowDump(t, s, change)
				_, _, err := backup.Run(t.Context(), o)
				if !errors.Is(err, dump.ErrChanged) || strings.Contains(err.Error(), "method: Files") != (flavour == server.MySQL) {
					t.Errorf("%s: %v", change, err)
				}
			}
		})
	}
}

// A change of accounts during a dump does not make the backup fail. If an account changes while an attempt begins, even
// if the change is undone, the accounts at the dump's position are unknown. The agent then begins again, and does not
// count this attempt.
func TestAccountsThatChangeWhileTheDumpRuns(t *testing.T) {
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, at := rig.Start(t, flavour), t.TempDir()
			s.Exec("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
			o := options(s, folder(t), nil)
			o.Tries, o.DumpProgram = 1, filepath.Join(at, "mysqldump")
			script := fmt.Sprintf(`#!/bin/bash
case "$*" in *--version*|*--help*) exec %[1]s/mysqldump "$@";; esac
on() { %[1]s/mysql --no-defaults -uroot -S %[3]s -e "$1" >&2; }
n=$(cat %[2]s/attempt || echo 0) 2>/dev/null
echo $((n+1)) >%[2]s/attempt
case $n in 0) on "CREATE USER early@'%%'";; 1) on "CREATE USER undone@'%%'; DROP USER undone@'%%'";; esac
%[1]s/mysqldump "$@" || exit
[ $n != 2 ] || on "CREATE USER late@'%%'"
`, s.Tools, at, s.Root().Address)
			assert.NilError(t, os.WriteFile(o.DumpProgram, []byte(script), 0o700))
			_, _, err := backup.Run(t.Context(), o)
			assert.NilError(t, err)
			attempts, err := os.ReadFile(filepath.Join(at, "attempt"))
			assert.NilError(t, err)
			assert.Assert(t, string(attempts) >= "3", "%s", attempts)
		})
	}
}

// A server that limits the rows of each SELECT is backed up completely, or the backup fails.
func TestLimitedSelects(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := rig.Start(t, flavour)
			s.Exec("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)", "INSERT INTO x.a SELECT HELP_TOPIC_ID FROM mysql.help_topic", "SET GLOBAL sql_select_limit = 400")
			rows := s.Ask("SELECT COUNT(*) FROM x.a")
			assert.Equal(t, s.Ask("SELECT COUNT(*) > 400 FROM x.a"), "1")
			made, _, err := backup.Run(t.Context(), options(s, folder(t), nil))
			if flavour == server.MariaDB { // MariaDB's program has no option for session statements
				assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
				assert.ErrorContains(t, err, "sql_select_limit")
				s.Exec("SET GLOBAL sql_select_limit = DEFAULT")
				made, _, err = backup.Run(t.Context(), options(s, folder(t), nil))
			}
			assert.NilError(t, err)
			assert.Equal(t, itoa(made.Rows()), rows)
		})
	}
}

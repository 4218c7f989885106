// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// rights returns the definition and grants of each account and role, except the accounts in without.
func rights(t *testing.T, o server.Options, without ...string) map[string][]string {
	t.Helper()
	conn, err := server.Connect(t.Context(), o)
	assert.NilError(t, err)
	defer conn.Close()
	query := "SELECT User, Host FROM mysql.user"
	if conn.Version.Flavour == server.MariaDB {
		query = "SELECT User, Host FROM mysql.global_priv"
	}
	rows, err := conn.Rows(query)
	assert.NilError(t, err)
	all := map[string][]string{}
	for _, row := range rows {
		if strings.HasPrefix(row[0], "mysql.") || row[0] == "mariadb.sys" || row[0] == "mysql" || slices.Contains(without, row[0]) {
			continue
		}
		account := "'" + row[0] + "'@'" + row[1] + "'"
		if row[1] == "" {
			account = strings.ReplaceAll(row[0], "PUBLIC", "PUBLIC")
		}
		grants, err := conn.Rows("SHOW GRANTS FOR " + account)
		assert.NilError(t, err, account)
		for _, grant := range grants {
			all[account] = append(all[account], grant[0])
		}
		if made, err := conn.Value("SHOW CREATE USER " + account); err == nil && account != "'root'@'localhost'" {
			all[account] = append(all[account], made)
		}
		if account == "'root'@'localhost'" { // root has the password of this test
			all[account] = slices.DeleteFunc(all[account], func(text string) bool { return strings.Contains(text, "ALL PRIVILEGES") })
		}
		slices.Sort(all[account])
	}
	return all
}

// restored restores the newest backup, optionally up to the end of the archive, and passes the restored server to look.
func restored(t *testing.T, flavour string, from store.Store, until *restore.Until, look func(restore.Outcome, server.Options)) {
	t.Helper()
	entry, err := catalogue.Find(t.Context(), from, "latest")
	assert.NilError(t, err)
	volume, programs := t.TempDir(), rig.Programs(t, flavour)
	out, err := restore.Restore(t.Context(), restore.Source{Store: from, Backup: entry.Manifest}, programs, restore.Target{Volume: volume, Data: "mysql", RootPassword: "root", Until: until})
	assert.NilError(t, err)
	i := &restore.Instance{Programs: programs, Data: filepath.Join(volume, "mysql")}
	assert.NilError(t, i.Start(t.Context()))
	defer i.Kill()
	o := i.Options()
	o.Password = "root"
	look(out, o)
}

// A restore recreates roles, default roles, grants to PUBLIC and root from any host. It warns of what it cannot restore, and succeeds.
func TestAccounts(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, to := start(t, flavour), folder(t)
			s.Exec("CREATE ROLE zz_reads, aa_writes, nobody_has", "GRANT SELECT ON shop.* TO zz_reads", "GRANT INSERT ON shop.items TO aa_writes", "GRANT zz_reads TO aa_writes",
				"GRANT DELETE ON shop.items TO nobody_has", `CREATE USER app@'%' IDENTIFIED BY 'it''s; a "word"\n' , 'root'@'%' IDENTIFIED BY 'far', stale@'%'`, "GRANT aa_writes TO app@'%'", "GRANT zz_reads TO app@'%'", "GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION",
				"CREATE TABLE shop.gone (a INT, b INT)", "CREATE VIEW shop.lost AS SELECT 1 AS a", "GRANT SELECT ON shop.gone TO stale@'%'", "GRANT SELECT ON shop.lost TO stale@'%'", "CREATE TABLE shop.kept (a INT, b INT)",
				"GRANT UPDATE (b) ON shop.kept TO stale@'%'", "DROP TABLE shop.gone", "DROP VIEW shop.lost", "ALTER TABLE shop.kept DROP COLUMN b")
			if flavour == server.MariaDB {
				s.Exec("SET DEFAULT ROLE aa_writes FOR app@'%'", "GRANT SELECT ON shop.items TO PUBLIC",
					`INSERT INTO mysql.global_priv VALUES ('%', 'plugged', '{"access":0,"plugin":"no_such_plugin","authentication_string":"secret"}')`, "FLUSH PRIVILEGES")
			} else {
				s.Exec("SET DEFAULT ROLE aa_writes, zz_reads TO app@'%'", "CREATE USER plugged@'%' IDENTIFIED BY 'x'", "UPDATE mysql.user SET plugin = 'no_such_plugin' WHERE User = 'plugged'", "FLUSH PRIVILEGES",
					"INSTALL COMPONENT 'file://component_validate_password'") // the component's policy refuses the password that the restore sets for root
			}
			made, _, err := backup.Run(t.Context(), options(s, to, nil))
			assert.NilError(t, err)
			t.Log(made.Warnings)
			restored(t, flavour, to, nil, func(out restore.Outcome, o server.Options) {
				warnings := strings.Join(out.Warnings, "\n")
				for _, says := range []string{"`gone`", "`lost`", "`kept`", "plugged"} {
					if !strings.Contains(warnings, says) {
						t.Errorf("no warning about %s: %s", says, warnings)
					}
				}
				if strings.Contains(warnings, "secret") || len(out.Warnings) > 6 {
					t.Errorf("%s", warnings)
				}
				want := rights(t, s.Root(), "stale", "plugged")
				assert.DeepEqual(t, rights(t, o, "stale", "plugged"), want)
				if len(want) < 6 {
					t.Errorf("only %v was compared", want)
				}
			})
		})
	}
}

// The binary log changes root's password, and accounts that a restored database does not keep. Each point in time can still be restored.
func TestAccountsThatTheLogChanges(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, to := start(t, flavour), folder(t)
			s.Exec("CREATE USER 'root'@'%' IDENTIFIED BY 'far'", "CREATE USER other@'%' IDENTIFIED BY 'x'")
			a := archive(s, to, nil, time.Second)
			defer func() { a.stop(); a.done.Wait() }()
			o := options(s, to, nil)
			o.SkipAccounts = []string{rig.Account, "other"}
			_, _, err := backup.Run(t.Context(), o)
			assert.NilError(t, err)
			s.Exec("ALTER USER root@localhost IDENTIFIED BY 'new'", "ALTER USER 'root'@'%' IDENTIFIED BY 'farther'", "ALTER USER "+rig.Account+"@'%' ACCOUNT UNLOCK", "DROP USER other@'%'",
				"INSERT INTO shop.items VALUES (4, 4)", "ALTER USER root@localhost IDENTIFIED BY ''")
			a.catchUp(t)
			restored(t, flavour, to, &restore.Until{}, func(_ restore.Outcome, o server.Options) {
				rows, err := rig.Read(t.Context(), o)
				assert.NilError(t, err)
				assert.Equal(t, len(rows["shop.items"]), 1)
				all := rights(t, o)
				for _, gone := range []string{rig.Account, "other", "d3os_restore"} {
					if strings.Contains(fmt.Sprint(all), gone) {
						t.Errorf("%s is left: %v", gone, all)
					}
				}
			})
		})
	}
}

// Objects that are created, changed or dropped during the dump belong to the backup's position. Each later point in time can be restored.
func TestChangesWhileTheDumpRuns(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, to := start(t, flavour), folder(t)
			s.Exec("CREATE USER early@'%'", "CREATE VIEW shop.seen AS SELECT 1 AS a")
			a := archive(s, to, nil, time.Second)
			defer func() { a.stop(); a.done.Wait() }()
			for i, change := range []string{
				"CREATE USER late@'%' IDENTIFIED BY 'x'; DROP USER early@'%'",
				"CREATE VIEW shop.later AS SELECT 2 AS b; CREATE OR REPLACE VIEW shop.large AS SELECT 3 AS c; DROP VIEW shop.seen; CREATE PROCEDURE shop.proc() SELECT 1; ALTER DATABASE shop CHARACTER SET latin1;" +
					"CREATE TRIGGER shop.tr BEFORE INSERT ON shop.items FOR EACH ROW SET @a = 1; CREATE EVENT shop.ev ON SCHEDULE EVERY 1 DAY DO SELECT 1; CREATE DATABASE more",
			} {
				o := options(s, to, nil)
				o.DumpProgram = slowDump(t, s, change)
				_, _, err := backup.Run(t.Context(), o)
				assert.NilError(t, err, change)
				s.Exec(fmt.Sprintf("INSERT INTO shop.items VALUES (%d, 1)", i))
				a.catchUp(t)
				restored(t, flavour, to, &restore.Until{}, func(_ restore.Outcome, o server.Options) {
					assert.DeepEqual(t, objects(t, o), objects(t, s.Root()))
					rows, err := rig.Read(t.Context(), o)
					assert.NilError(t, err)
					assert.Equal(t, len(rows["shop.items"]), i+1)
				})
			}
		})
	}
}

func objects(t *testing.T, o server.Options) []string {
	t.Helper()
	conn, err := server.Connect(t.Context(), o)
	assert.NilError(t, err)
	defer conn.Close()
	var all []string
	for _, query := range []string{"SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA <> 'sys'", "SELECT ROUTINE_NAME, ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA <> 'sys'",
		"SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA <> 'sys'", "SELECT EVENT_NAME, EVENT_DEFINITION FROM information_schema.EVENTS",
		"SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA", "SELECT User, Host FROM mysql.user WHERE User IN ('early', 'late')"} {
		rows, err := conn.Rows(query)
		assert.NilError(t, err)
		for _, row := range rows {
			all = append(all, strings.Join(row, " "))
		}
	}
	slices.Sort(all)
	return all
}

// slowDump returns a dump program that runs the real program. After its first dump, it runs a statement before it ends.
func slowDump(t *testing.T, s *rig.Server, statement string) string {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "mysqldump")
	script := fmt.Sprintf(`#!/bin/bash
case "$*" in *--version*|*--help*) exec %[1]s/mysqldump "$@";; esac
%[1]s/mysqldump "$@" || exit
[ -e %[2]s/done ] || { touch %[2]s/done; %[1]s/mysql --no-defaults -uroot -S %[3]s -e "$(cat %[2]s/sql)" >&2; }
`, s.Tools, folder, s.Root().Address)
	assert.NilError(t, os.WriteFile(filepath.Join(folder, "sql"), []byte(statement), 0o600))
	assert.NilError(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

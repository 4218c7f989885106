// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// original is a server whose backup and archive are restored.
type original struct {
	*rig.Server
	to       store.Store
	identity *age.X25519Identity
	a        *archiver
	backupID string // ID of the backup to restore; "" for the newest
	isCopied bool   // backups copy the server's files
}

func observed(t *testing.T, s *rig.Server) *original {
	o := &original{Server: s, to: folder(t), identity: key(t)}
	o.a = archive(s, o.to, o.identity, time.Second)
	t.Cleanup(func() { o.a.stop(); o.a.done.Wait() })
	return o
}

func (o *original) backup() {
	o.T.Helper()
	with := options(o.Server, o.to, o.identity)
	if o.isCopied {
		o.Exec("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
		with = copying(o.Server, o.to, o.identity)
	}
	_, _, err := backup.Run(o.T.Context(), with)
	assert.NilError(o.T, err)
}

// settled waits until the archive has all statements that were run before the call.
func (o *original) settled() {
	o.T.Helper()
	conn, err := server.Connect(o.T.Context(), o.Root())
	assert.NilError(o.T, err)
	defer conn.Close()
	end, err := conn.Now()
	assert.NilError(o.T, err)
	rig.Until(o.T, "the archive", func() bool { return o.a.reached().After(end) })
}

// build restores to a volume. The restoring server has the original's configuration unless a file is given. Root has no password.
func (o *original) build(end *restore.Until, config ...string) (string, restore.Outcome, error) {
	o.T.Helper()
	entry, err := catalogue.Find(o.T.Context(), o.to, cmp.Or(o.backupID, "latest"))
	assert.NilError(o.T, err)
	programs := rig.Programs(o.T, o.Flavour)
	programs.Config = append(config, o.Config())[0]
	volume := o.T.TempDir()
	out, err := restore.Restore(o.T.Context(), restore.Source{Store: o.to, Backup: entry.Manifest, Identities: []age.Identity{o.identity}}, programs,
		restore.Target{Volume: volume, Data: "mysql", Until: end, Batch: 1}) // Batch: 1 makes each file of the log a separate batch
	return filepath.Join(volume, "mysql"), out, err
}

// restored restores to a volume, and starts a server with the original's options on the restored data.
func (o *original) restored(end *restore.Until) (*rig.Server, restore.Outcome) {
	o.T.Helper()
	data, out, err := o.build(end)
	assert.NilError(o.T, err)
	return o.On(data), out
}

// endEvents stops the event scheduler, and waits for the end of running events: stopping the scheduler does not end them.
func (o *original) endEvents() {
	o.T.Helper()
	o.Exec("SET GLOBAL event_scheduler = OFF")
	workers := "SELECT COUNT(*) FROM performance_schema.threads WHERE NAME = 'thread/sql/event_worker'"
	if o.Flavour == server.MariaDB { // a worker thread has the name of its event's definer
		workers = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER IN ('event_scheduler', 'root') AND ID <> CONNECTION_ID()"
	}
	rig.Until(o.T, "no event runs", func() bool { return o.Ask(workers) == "0" })
}

// zone creates a named time zone, as the image's entry point does from the system's files.
var zone = []string{"INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (4711, 'N')", "INSERT INTO mysql.time_zone_name VALUES ('Test/Eight', 4711)",
	"INSERT INTO mysql.time_zone_transition_type VALUES (4711, 0, 28800, 0, 'CST')"}

// applier holds options with which a replica would apply events differently.
var applier = map[string][]string{
	server.MariaDB: {"--slave-skip-errors=all", "--slave-exec-mode=IDEMPOTENT", "--init-slave=DROP DATABASE a", "--slave-run-triggers-for-rbr=YES", "--slave-parallel-threads=4"},
	server.MySQL:   {"--replica-skip-errors=all", "--replica-exec-mode=IDEMPOTENT", "--init-replica=DROP DATABASE a", "--replica-parallel-workers=4"},
}

// The restoring server has the time zone, the named zones and the configuration of the original server. It runs no
// events. The restored database returns the same results as the original, and runs its events again.
func TestRestoringServerIsLikeTheDatabase(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			o := observed(t, rig.Start(t, flavour, append(applier[flavour], "TZ=CST-8", "--innodb-ft-min-token-size=2", "--innodb-strict-mode=OFF", "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "--event-scheduler=ON",
				"--log-bin-trust-function-creators=1", "--read-only=OFF", "--default-storage-engine=MyISAM", "--server-id=4294967295", "--replicate-ignore-db=a", "--replicate-wild-ignore-table=a.%")...))
			o.Exec(zone...)
			o.Exec("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, ts TIMESTAMP NULL, d INT) ENGINE=InnoDB", "INSERT INTO a.t VALUES (1, '2026-11-25 10:00:00', 0)",
				"CREATE TABLE a.f (id INT PRIMARY KEY, b VARCHAR(100), FULLTEXT (b)) ENGINE=InnoDB", "INSERT INTO a.f VALUES (1, 'go is ok')",
				"CREATE EVENT a.daily ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 03:00:00' DO DELETE FROM a.t WHERE id = 99",
				"SET time_zone = 'Test/Eight'", "CREATE EVENT a.named ON SCHEDULE AT '2037-05-05 05:05:05' DO DELETE FROM a.t WHERE id = 99",
				"CREATE EVENT a.off ON SCHEDULE EVERY 1 SECOND DISABLE DO UPDATE a.t SET d = -1",
				"CREATE EVENT a.past ON SCHEDULE AT NOW() + INTERVAL 1 MINUTE DO UPDATE a.t SET d = 4",
				"CREATE USER 'q''\\\\'@'%' IDENTIFIED BY 'x'", "CREATE DATABASE SYS", "CREATE TABLE SYS.t (id INT PRIMARY KEY)", "INSERT INTO SYS.t VALUES (1)", "CREATE DATABASE ndbinfo", "CREATE TABLE ndbinfo.t (id INT)", "INSERT INTO ndbinfo.t VALUES (2)")
			o.backup()
			o.Exec("ALTER TABLE a.t MODIFY ts DATETIME NULL, ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP", "CREATE TABLE a.wide (id INT PRIMARY KEY, c CHAR(1)) ROW_FORMAT=COMPACT KEY_BLOCK_SIZE=8 ENGINE=InnoDB",
				"CREATE TABLE a.plain (id INT PRIMARY KEY)",
				"SET time_zone = 'Test/Eight'", "CREATE TABLE a.n (id INT PRIMARY KEY, at DATETIME DEFAULT CURRENT_TIMESTAMP)", "INSERT INTO a.n (id) VALUES (1)", "ALTER TABLE a.n ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP",
				"CREATE EVENT a.late ON SCHEDULE AT '2037-06-06 06:06:06' DO DELETE FROM a.t WHERE id = 99", "ALTER EVENT a.off COMMENT 'still off'",
				"SET sql_mode = 'ANSI_QUOTES'", `ALTER EVENT a."daily" COMMENT 'daily'`)
			rig.Until(t, "the event to run and go", func() bool {
				return o.Ask("SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_NAME = 'past'") == "0"
			})
			o.settled()
			questions := []string{"SELECT * FROM a.t", "SELECT * FROM SYS.t, ndbinfo.t", "SELECT * FROM a.n", "SELECT id FROM a.f WHERE MATCH (b) AGAINST ('ok')", "SHOW CREATE TABLE a.wide", "SHOW CREATE TABLE a.plain",
				"SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', 'Test/Eight'), @@system_time_zone, @@innodb_ft_min_token_size, @@innodb_strict_mode",
				"SELECT EVENT_NAME, TIME_ZONE, STATUS, STARTS, EXECUTE_AT, DEFINER, SQL_MODE, EVENT_COMMENT, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.EVENTS ORDER BY 1",
				"SELECT User, Host FROM mysql.user WHERE User LIKE 'q%'"}
			want := map[string]string{}
			for _, q := range questions {
				want[q] = o.Ask(q)
			}
			o.Exec("CREATE EVENT a.each ON SCHEDULE EVERY 1 SECOND DO UPDATE a.t SET d = d + 1")
			rig.Until(t, "two runs of the event", func() bool { return o.Ask("SELECT d > 5 FROM a.t") == "1" })
			o.endEvents()
			counted := o.Ask("SELECT d FROM a.t")
			o.settled()
			want[questions[7]] = o.Ask(questions[7])
			all := everything(t, o.Server)
			r, out := o.restored(&restore.Until{})
			began := r.Ask("SELECT d FROM a.t")
			assert.Equal(t, r.Ask("SELECT d >= "+counted+" FROM a.t"), "1", "the counter of the event lost runs: it was %s, and is %s", counted, began)
			for _, q := range questions[1:] {
				assert.Equal(t, r.Ask(q), want[q], q)
			}
			differ(t, everything(t, r), all)
			made := "SELECT id, ts, made FROM a.t"
			assert.Equal(t, r.Ask(made), o.Ask(made))
			assert.DeepEqual(t, out.Warnings, []string{"the configuration of the database differs from the configuration of the backup's database: system_time_zone (TZ=, was CST)"}) // the test's process has another time zone than the original
			rig.Until(t, "the event runs again", func() bool { return r.Ask("SELECT d > "+began+" FROM a.t") == "1" })
		})
	}
}

// A restore loads and applies everything. It does so even if the server's replication filters exclude a part of the
// data, if its applier skips events, and if its sessions begin without autocommit. A restore that cannot apply an event
// fails, with the name of the table.
func TestFiltersLeaveNothingOut(t *testing.T) {
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			o := observed(t, rig.Start(t, flavour, append(applier[flavour], "--replicate-ignore-db=a", "--replicate-wild-ignore-table=a.%", "--autocommit=0")...))
			o.Exec(append(zone, "COMMIT")...)
			o.Exec("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO a.t VALUES (0)", "COMMIT")
			o.backup()
			o.Exec("INSERT INTO a.t VALUES (1)", "COMMIT")
			o.settled()
			r, _ := o.restored(&restore.Until{})
			assert.Equal(t, r.Ask("SELECT COUNT(*) FROM a.t"), "2")
			converted := "SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', 'Test/Eight')"
			assert.Equal(t, r.Ask(converted), o.Ask(converted))

			// The dump rounds the value, and no key identifies the row: the applier must not skip the event.
			o.Exec("CREATE TABLE a.f (f FLOAT) ENGINE=InnoDB", "INSERT INTO a.f VALUES (1.23456789)", "COMMIT")
			o.backup()
			o.Exec("UPDATE a.f SET f = 2", "COMMIT")
			o.settled()
			_, _, err := o.build(&restore.Until{})
			assert.Equal(t, contract.ReasonOf(err), contract.ReasonLoadFailed)
			assert.ErrorContains(t, err, "1032")
			assert.ErrorContains(t, err, "a.f")
		})
	}
}

// Tables that were created in another folder after the backup (DATA DIRECTORY) are restored in the folder of the data: the next pod does
// not have the other folder. Routines, triggers and events keep their text and their SQL mode.
func TestTablesAreRestoredInTheFolderOfTheData(t *testing.T) {
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			assert.NilError(t, os.Mkdir(elsewhere, 0o777))
			o := observed(t, rig.Start(t, flavour, "--loose-innodb-directories="+elsewhere))
			o.Exec("CREATE DATABASE a")
			o.backup()
			at := " DATA DIRECTORY='" + elsewhere + "'"
			o.Exec("CREATE TABLE a.i (id INT PRIMARY KEY) ENGINE=InnoDB,"+at+", COMMENT='keeps "+strings.ReplaceAll(at, "'", "''")+"'",
				"CREATE TABLE a.m (id INT PRIMARY KEY) ENGINE=MyISAM"+at+" INDEX DIRECTORY='"+elsewhere+"'",
				"CREATE TABLE a.p (id INT PRIMARY KEY) ENGINE=InnoDB PARTITION BY RANGE (id) (PARTITION few VALUES LESS THAN (10)"+at+", PARTITION more VALUES LESS THAN MAXVALUE)",
				"INSERT INTO a.i VALUES (1)", "INSERT INTO a.m VALUES (2)", "INSERT INTO a.p VALUES (3), (30)",
				"ALTER TABLE a.p REORGANIZE PARTITION more INTO (PARTITION more VALUES LESS THAN (40)"+at+", PARTITION most VALUES LESS THAN MAXVALUE)",
				"CREATE TABLE a.like_p LIKE a.p", "INSERT INTO a.like_p VALUES (4)", "ALTER TABLE a.i"+at+", ADD COLUMN c INT",
				"CREATE TABLE a.selected (PRIMARY KEY (id))"+at+" SELECT id + 4 AS id FROM a.i",
				"CREATE PROCEDURE a.makes() CREATE TABLE a.made (id INT PRIMARY KEY)"+at, "CALL a.makes()", "INSERT INTO a.made VALUES (6)",
				"SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", `CREATE TABLE a.quoted ("id'" INT DEFAULT 7, c VARCHAR(9) DEFAULT '\')`+at, "INSERT INTO a.quoted () VALUES ()",
				"CREATE FUNCTION a.f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE TRIGGER a.r BEFORE INSERT ON a.i FOR EACH ROW SET @a = 1", "CREATE EVENT a.e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1")
			stored := "SELECT ROUTINE_NAME, SQL_MODE, ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'a' UNION SELECT TRIGGER_NAME, SQL_MODE, ACTION_STATEMENT FROM information_schema.TRIGGERS " +
				"WHERE TRIGGER_SCHEMA = 'a' UNION SELECT EVENT_NAME, SQL_MODE, EVENT_DEFINITION FROM information_schema.EVENTS UNION SELECT TABLE_NAME, '', TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'a' ORDER BY 1"
			want := o.Ask(stored)
			o.settled()
			o.a.stop()
			o.a.done.Wait()
			o.Kill()
			assert.NilError(t, os.RemoveAll(elsewhere))
			r, _ := o.restored(&restore.Until{})
			assert.Equal(t, r.Ask("SELECT id FROM a.i UNION SELECT id FROM a.m UNION SELECT id FROM a.p UNION SELECT id FROM a.like_p UNION SELECT id FROM a.selected UNION SELECT id FROM a.made UNION SELECT `id'` FROM a.quoted ORDER BY 1"),
				"1\n2\n3\n4\n5\n6\n7\n30")
			assert.Equal(t, r.Ask(stored), want)
			_, err := os.Stat(elsewhere)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// everything reads a server. It omits rows that running events change, and the variable event_scheduler.
func everything(t *testing.T, s *rig.Server) reading {
	t.Helper()
	all := readZoo(t, s)
	delete(all, "rows `a`.`t`")
	delete(all, "all variable event_scheduler")
	return all
}

// Before a restore begins, it reports what it cannot preserve.
func TestRestoreIsRefusedOrSaysWhereTheConfigurationDiffers(t *testing.T) {
	t.Parallel()
	o := observed(t, rig.Start(t, server.MySQL, "--innodb-ft-min-token-size=2"))
	o.backup()
	config := filepath.Join(t.TempDir(), "my.cnf")
	for text, want := range map[string]string{
		"lower_case_table_names=1":                             "lower_case_table_names=0, but the restored database is configured with 1",
		"innodb_page_size=8k\ninnodb_ft_min_token_size=2":      "innodb_page_size=16384",
		"innodb_ft_min_token_size=5":                           "",
		"innodb_ft_min_token_size=2\ndefault_time_zone=+01:00": "",
	} {
		assert.NilError(t, os.WriteFile(config, []byte("[mysqld]\nmax_allowed_packet=64M\n"+text+"\n"), 0o644))
		entry, err := catalogue.Find(t.Context(), o.to, "latest")
		assert.NilError(t, err)
		programs := rig.Programs(t, o.Flavour)
		programs.Config = config
		settings, err := restore.Configure(t.Context(), entry.Manifest, programs, nil, false)
		if want != "" {
			assert.ErrorContains(t, err, want)
			assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
			continue
		}
		assert.NilError(t, err)
		assert.Assert(t, len(settings.Warnings) == 1 && strings.Contains(settings.Warnings[0], strings.Split(strings.Split(text, "\n")[strings.Count(text, "\n")], "=")[0][8:]), "%s: %q", text, settings.Warnings)
	}
}

// A dump of MySQL 5.7 loads into a newer series. The restoring server sets the SQL modes of 5.7, and a character set without a collation
// keeps its meaning.
func TestDumpOfMySQL57LoadsIntoANewerSeries(t *testing.T) {
	t.Parallel()
	o := observed(t, rig.Start(t, server.MySQL))
	o.Exec("CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, b VARCHAR(9)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci", "CREATE PROCEDURE a.p() SELECT 1",
		"CREATE EVENT a.e ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE TRIGGER a.r BEFORE INSERT ON a.t FOR EACH ROW SET @a = 1")
	old := filepath.Join(t.TempDir(), "mysqldump")
	assert.NilError(t, os.WriteFile(old, []byte("#!/bin/bash\nset -o pipefail\n"+o.DumpProgram()+` "$@" | sed "s/SET sql_mode  *= '/&NO_AUTO_CREATE_USER,/; s/ COLLATE=utf8mb4_general_ci//"`+"\n"), 0o755))
	b := options(o.Server, o.to, o.identity)
	b.DumpProgram = old
	made, _, err := backup.Run(t.Context(), b)
	assert.NilError(t, err)
	made.Server.Version = "5.7.44"
	programs := rig.Programs(t, o.Flavour)
	volume := t.TempDir()
	_, err = restore.Restore(t.Context(), restore.Source{Store: o.to, Backup: made, Identities: []age.Identity{o.identity}}, programs, restore.Target{Volume: volume, Data: "mysql"})
	assert.NilError(t, err)
	r := o.On(filepath.Join(volume, "mysql"))
	assert.Equal(t, r.Ask("SELECT TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'a'"), "utf8mb4_general_ci")
	assert.Equal(t, r.Ask("SELECT (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'a'), (SELECT COUNT(*) FROM information_schema.EVENTS), (SELECT COUNT(*) FROM information_schema.TRIGGERS "+
		"WHERE TRIGGER_SCHEMA = 'a')"), "1|1|1")
}

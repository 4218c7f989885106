// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// startCopied starts a MySQL server that can be copied.
func startCopied(t testing.TB, more ...string) *rig.Server {
	t.Helper()
	s := rig.Start(t, server.MySQL, more...)
	s.Exec("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
	return s
}

// copying returns the options of a backup that copies the server's files.
func copying(s *rig.Server, to store.Store, identity *age.X25519Identity) backup.Options {
	o := options(s, to, identity)
	o.Copy = &backup.Copy{Programs: rig.Programs(s.T, s.Flavour), Scratch: s.T.TempDir()}
	return o
}

// distribute runs XA transactions until a context ends. Each of them inserts a row with its number, and updates all
// rows of a small table.
func distribute(ctx context.Context, s *rig.Server, writer int) {
	conn, err := server.Connect(context.WithoutCancel(ctx), s.Root())
	assert.Check(s.T, err)
	if err != nil {
		return
	}
	defer conn.Close()
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("'%d-%d'", writer, n)
		end := []string{"XA PREPARE " + name, "XA COMMIT " + name}
		if n%3 == 0 {
			end = []string{"XA COMMIT " + name + " ONE PHASE"}
		}
		for _, statement := range append([]string{"XA START " + name, "INSERT INTO shop.flight VALUES (" + name + ")", fmt.Sprintf("UPDATE shop.counts SET n = n + 1 WHERE id = %d", writer), "XA END " + name}, end...) {
			if !assert.Check(s.T, conn.Do(statement)) {
				return
			}
		}
	}
}

// redefine exchanges the names of tables, exchanges a partition, and alters a table, until the end of a context. It returns the number of rounds.
func redefine(ctx context.Context, s *rig.Server) (rounds int) {
	conn, err := server.Connect(context.WithoutCancel(ctx), s.Root())
	assert.Check(s.T, err)
	if err != nil {
		return 0
	}
	defer conn.Close()
	for ; ctx.Err() == nil; rounds++ {
		for _, statement := range []string{
			"RENAME TABLE shop.one TO shop.three, shop.two TO shop.one, shop.three TO shop.two", "ALTER TABLE shop.parts EXCHANGE PARTITION p1 WITH TABLE shop.alone",
			fmt.Sprintf("ALTER TABLE shop.one MODIFY n VARCHAR(%d)", 20+rounds%2), fmt.Sprintf("INSERT INTO shop.one (n) VALUES ('%d')", rounds),
			fmt.Sprintf("INSERT INTO shop.alone VALUES (%d)", 100+rounds),
		} {
			if !assert.Check(s.T, conn.Do(statement)) {
				return rounds
			}
		}
	}
	return rounds
}

// Clients write while the files are copied: rows, XA transactions into tables without a key, and changes of tables. Each copy contains
// exactly the rows at its position. A replay from there restores the server's rows without duplicates.
func TestFilesUnderLoad(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"plain": nil, "GTIDs": {"--gtid-mode=ON", "--enforce-gtid-consistency=ON"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observed(t, startCopied(t, more...))
			o.Tables()
			o.Exec("CREATE TABLE shop.flight (name VARCHAR(30))", "CREATE TABLE shop.counts (id INT, n INT)", "INSERT INTO shop.counts VALUES (0, 0), (1, 0)")
			o.Exec("CREATE TABLE shop.one (id INT PRIMARY KEY AUTO_INCREMENT, n VARCHAR(20))", "CREATE TABLE shop.two LIKE shop.one", "CREATE TABLE shop.alone (id INT PRIMARY KEY)",
				"CREATE TABLE shop.parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)", "INSERT INTO shop.parts VALUES (1), (2)")
			load := o.Write(3, 3, time.Millisecond)
			defer load.Stop()
			ctx, cancel := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			for i := range 2 {
				writers.Go(func() { distribute(ctx, o.Server, i) })
			}
			writers.Go(func() { assert.Check(t, redefine(ctx, o.Server) > 0) })
			defer func() { cancel(); writers.Wait() }()
			var made []*manifest.Backup
			for n := range rig.Seeds(2, 20) {
				acks := len(load.Acks())
				rig.Until(t, "100 transactions", func() bool { return len(load.Acks()) >= acks+100 })
				copied := copying(o.Server, o.to, o.identity)
				copied.Copy.Interfere = func(step string) {
					o.Exec(fmt.Sprintf("CREATE TABLE shop.%s%d (id INT PRIMARY KEY)", step, n), "FLUSH BINARY LOGS")
				}
				b, _, err := backup.Run(t.Context(), copied)
				assert.NilError(t, err)
				assert.Equal(t, b.Base, manifest.Physical, "%q", b.Warnings)
				assert.Equal(t, len(b.Warnings), 0, "%q", b.Warnings)
				made = append(made, b)
			}
			cancel()
			writers.Wait()
			load.Stop()
			o.settled()
			for _, b := range made {
				got, out, err := attempt(t.Context(), t, server.MySQL, o.to, b.ID, nil, o.identity)
				assert.NilError(t, err)
				want := o.At(*out.Position)
				for _, rows := range []rig.Rows{got, want} { // not compared: the log has rows of prepared XA transactions already, and At ignores changes of tables
					for _, table := range []string{"flight", "counts", "one", "two", "three", "parts", "alone"} {
						delete(rows, "shop."+table)
					}
				}
				assert.Equal(t, rig.Differ(got, want), "")
				assert.Assert(t, out.Later != nil && out.Later.Transactions > 0)
			}
			for i, b := range made {
				if i > 0 && !rig.Full() {
					break
				}
				o.backupID = b.ID
				r, _ := o.restored(&restore.Until{})
				for _, query := range []string{"SELECT name, COUNT(*) FROM shop.flight GROUP BY name ORDER BY name", "SELECT id, n FROM shop.counts ORDER BY id", "CHECKSUM TABLE shop.orders, shop.items, shop.one, shop.two, shop.parts, shop.alone", "SHOW CREATE TABLE shop.one",
					"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' ORDER BY 1"} {
					assert.Equal(t, r.Ask(query), o.Ask(query))
				}
				r.Kill()
			}
		})
	}
}

// A copy of the files contains the data that a dump loses, and everything else that a client can read. The restored database has new
// GTIDs. It has neither the accounts of the operator nor the accounts of the copy.
func TestFilesLoseNothing(t *testing.T) {
	t.Parallel()
	s, identity, to := startCopied(t, "--gtid-mode=ON", "--enforce-gtid-consistency=ON"), key(t), folder(t)
	s.Tables()
	s.Exec(zone...)
	s.Exec("CREATE DATABASE aa", "CREATE TABLE aa.texts (id INT PRIMARY KEY, f FLOAT, old VARCHAR(9) CHARACTER SET sjis, j JSON, b LONGBLOB, g INT AS (id * 2) STORED, FULLTEXT KEY ft (old))",
		"INSERT INTO aa.texts (id, f, old, j, b) VALUES (1, 16777217.123, x'815C', JSON_OBJECT('at', CAST('2026-01-02 03:04:05' AS DATETIME), 'n', CAST(1.10 AS DECIMAL(9,2))), REPEAT('x', 9000000))",
		"CREATE TABLE mysql.mine (id INT PRIMARY KEY)", "INSERT INTO mysql.mine VALUES (7)", "CREATE PROCEDURE mysql.proc() SELECT 1",
		"CREATE TABLE aa.parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3", "INSERT INTO aa.parts VALUES (1), (2), (3)",
		"CREATE TABLESPACE spaced ADD DATAFILE 'spaced.ibd'", "CREATE TABLE aa.spaced (id INT PRIMARY KEY) TABLESPACE spaced", "INSERT INTO aa.spaced VALUES (4)",
		"CREATE EVENT aa.runs ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE EVENT aa.stands ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
		"CREATE USER two@'%' IDENTIFIED BY 'old'", "ALTER USER two@'%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD", "CREATE ROLE reader", "GRANT SELECT ON aa.* TO reader", "GRANT reader TO two@'%'",
		"CREATE RESOURCE GROUP nightly TYPE = USER VCPU = 0 THREAD_PRIORITY = 5 DISABLE", "SET PERSIST max_connections = 77",
		"CREATE SERVER other FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', HOST 'h', DATABASE 'd')")
	with := copying(s, to, identity)
	with.SkipAccounts = []string{rig.Account, rig.ArchiveAccount}
	made, _, err := backup.Run(t.Context(), with)
	assert.NilError(t, err)
	assert.Equal(t, len(made.Warnings), 0, "%q", made.Warnings)
	assert.Equal(t, made.Format, manifest.FormatFiles)
	assert.Equal(t, made.Base, manifest.Physical)
	assert.Equal(t, made.Tables["`aa`.`parts`"], int64(3))
	content := func(o server.Options) map[string]string {
		conn, err := server.Connect(t.Context(), o)
		assert.NilError(t, err)
		defer conn.Close()
		all, err := conn.Definitions()
		assert.NilError(t, err)
		for name := range all {
			if server.IsPhysical(name) {
				delete(all, name)
			}
		}
		for _, query := range []string{"SELECT f + 0e0, HEX(old), JSON_TYPE(j->'$.at'), JSON_TYPE(j->'$.n'), g, SHA2(b, 256) FROM aa.texts", "SELECT id FROM aa.texts WHERE MATCH (old) AGAINST ('x')", "SELECT id FROM mysql.mine",
			"SELECT id FROM aa.parts ORDER BY id", "SELECT id FROM aa.spaced", "SELECT User_attributes FROM mysql.user WHERE User = 'two'", "SELECT Name FROM mysql.time_zone_name", "SELECT * FROM mysql.servers",
			"SELECT RESOURCE_GROUP_NAME, RESOURCE_GROUP_ENABLED FROM information_schema.RESOURCE_GROUPS"} {
			rows, err := conn.Rows(query)
			assert.NilError(t, err)
			all[query] = fmt.Sprint(rows)
		}
		return all
	}
	had, wanted := content(s.Root()), rights(t, s.Root(), rig.Account, rig.ArchiveAccount)
	o := &original{Server: s, to: to, identity: identity}
	r, out := o.restored(nil)
	assert.DeepEqual(t, content(r.Root()), had)
	assert.DeepEqual(t, rights(t, r.Root()), wanted)
	assert.Equal(t, out.Rows, made.Rows())
	assert.Equal(t, len(out.Warnings), 0, "%q", out.Warnings)
	assert.Equal(t, r.Ask("SELECT @@GLOBAL.gtid_executed"), "")
	persisted, err := os.ReadFile(filepath.Join(r.Data, "mysqld-auto.cnf"))
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(persisted), "max_connections"), "%s", persisted)
}

// If the files cannot be copied, or a copy would lack something, the backup is a dump with everything. A warning states the cause.
func TestFilesThatAreNotCopied(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	s, to := startCopied(t, "--innodb-directories="+outside), folder(t)
	s.Exec("CREATE DATABASE aa", "CREATE TABLE aa.t (id INT PRIMARY KEY)", "INSERT INTO aa.t VALUES (1)")
	grant := "BACKUP_ADMIN ON *.* %s " + rig.Account + "@'%%'"
	for _, c := range []struct {
		name, harm, heal, want string
		change                 func(*backup.Options)
	}{
		{name: "no right", harm: "REVOKE " + fmt.Sprintf(grant, "FROM"), heal: "GRANT " + fmt.Sprintf(grant, "TO"), want: "lacks the right BACKUP_ADMIN"},
		{name: "no plugin", harm: "UNINSTALL PLUGIN clone", heal: "INSTALL PLUGIN clone SONAME 'mysql_clone.so'", want: "has not loaded the plugin clone"},
		{name: "another engine", harm: "CREATE TABLE aa.old (id INT) ENGINE=MyISAM; INSERT INTO aa.old VALUES (2)", heal: "DROP TABLE aa.old", want: "tables that are not InnoDB (1): aa.old (MyISAM)"},
		{name: "another folder", harm: "CREATE TABLE aa.far (id INT PRIMARY KEY) DATA DIRECTORY = '" + outside + "'", heal: "DROP TABLE aa.far", want: outside + "/aa/far.ibd"},
		{name: "another image", change: func(o *backup.Options) { o.Copy.Programs.Version.Text, o.Copy.Programs.Version.Minor = "9.0.1", 0 }, want: "but the image of the backup has version 9.0.1"},
		{name: "a table while the files are copied", heal: "DROP TABLE aa.late", want: "aa.late (MyISAM)", change: func(o *backup.Options) {
			o.Copy.Interfere = func(step string) {
				if step == "copying" {
					s.Exec("CREATE TABLE aa.late (id INT) ENGINE=MyISAM", "INSERT INTO aa.late VALUES (2)")
				}
			}
		}},
	} {
		if c.harm != "" {
			s.Exec(strings.Split(c.harm, "; ")...)
		}
		o := copying(s, to, nil)
		if c.change != nil {
			c.change(&o)
		}
		made, _, err := backup.Run(t.Context(), o)
		assert.NilError(t, err, c.name)
		assert.Equal(t, made.Base, "", c.name)
		assert.Assert(t, slices.ContainsFunc(made.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "the backup is a dump, because the files could not be copied: ") && strings.Contains(w, c.want)
		}), "%s: %q", c.name, made.Warnings)
		rows := made.Rows()
		if strings.Contains(c.want, "MyISAM") {
			rows--
		}
		assert.Equal(t, rows, int64(1), c.name)
		left, err := os.ReadDir(o.Copy.Scratch)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0, c.name)
		if c.heal != "" {
			s.Exec(c.heal)
		}
	}
	made, _, err := backup.Run(t.Context(), copying(s, to, nil))
	assert.NilError(t, err)
	assert.Equal(t, made.Base, manifest.Physical, "%q", made.Warnings)
}

// The agent copies files, checks the copy, lists and prunes it together with dumps, and restores it. A damaged object proves that the copy
// is damaged. A server that cannot read the files is refused before the agent writes anything; the message names the cause.
func TestFilesByTheAgent(t *testing.T) {
	t.Parallel()
	s, identity, to := startCopied(t), key(t), folder(t)
	s.Tables()
	s.Exec("INSERT INTO shop.items VALUES (7, 7)")
	place := []string{"--folder=" + strings.TrimPrefix(to.String(), "folder "), "--report="}
	env := []string{"AGENT_IDENTITIES=" + identity.String(), "AGENT_ROOT_PASSWORD=root"}
	run := func(want contract.Reason, arguments ...string) contract.Result {
		t.Helper()
		cmd, out := agent(t, server.MySQL, env, append(arguments, place...)...)
		_ = cmd.Run() // the exit code depends on the reason, which is checked below
		r := result(t, out)
		assert.Equal(t, r.Reason, want, r.Message)
		return r
	}
	create := backupFlags(s, nil, identity)
	dumped := run("", create...)
	copied := run("", append(create, "--scratch="+t.TempDir())...)
	assert.Equal(t, len(copied.Warnings), 0, "%q", copied.Warnings)
	assert.Assert(t, run("", "verify", "--scratch="+t.TempDir()).Verified)
	list := run("", "list").Backups
	assert.Equal(t, len(list), 2)
	assert.Equal(t, list[0].ID+list[0].Base, copied.ID+manifest.Physical)
	assert.Equal(t, list[1].ID+list[1].Base, dumped.ID)
	assert.Assert(t, list[0].Verified != nil)

	volume := t.TempDir()
	out := run("", "restore", "--volume="+volume)
	assert.Equal(t, out.Rows, copied.Rows)
	i := &restore.Instance{Programs: rig.Programs(t, server.MySQL), Data: filepath.Join(volume, "mysql")}
	assert.NilError(t, i.Start(t.Context()))
	o := i.Options()
	o.Password = "root"
	got, err := rig.Read(t.Context(), o)
	i.Kill()
	assert.NilError(t, err)
	assert.Equal(t, got["shop.items"]["7"], `"7"`)

	entry, err := catalogue.Find(t.Context(), to, copied.ID)
	assert.NilError(t, err)
	whole := *entry.Manifest
	for version, want := range map[string]string{"99.1.0": "of the newer version 99.1.0", "8.0.40": "restore it with an image of 8.4", "11.8.9-MariaDB": "use an image of the same kind"} {
		changed := whole
		changed.Server.Version = version
		text, err := json.Marshal(changed)
		assert.NilError(t, err)
		assert.NilError(t, to.Replace(t.Context(), manifest.Folder(copied.ID)+manifest.Name, text))
		empty := t.TempDir()
		refused := run(contract.ReasonRefused, "restore", "--volume="+empty)
		assert.Assert(t, strings.Contains(refused.Message, want), refused.Message)
		run(contract.ReasonRefused, "restore", "--validate")
		left, err := os.ReadDir(empty)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)
	}
	text, err := manifest.Encode(whole)
	assert.NilError(t, err)
	assert.NilError(t, to.Replace(t.Context(), manifest.Folder(copied.ID)+manifest.Name, text))

	newest := run("", append(create, "--scratch="+t.TempDir())...)
	run("", "verify", "--scratch="+t.TempDir())
	removed := run("", "prune", "--keep=1", "--at-least=1").Removed
	assert.Equal(t, len(removed), 2, "%q", removed)
	left := run("", "list").Backups
	assert.Equal(t, len(left), 1)
	assert.Equal(t, left[0].ID, newest.ID)
	object := manifest.Folder(newest.ID) + "files-00000.tar.zst.age"
	bytes, err := store.ReadAll(t.Context(), to, object)
	assert.NilError(t, err)
	bytes[len(bytes)/2] ^= 1
	assert.NilError(t, to.Replace(t.Context(), object, bytes))
	run(contract.ReasonDamaged, "verify", "--scratch="+t.TempDir())
	assert.Assert(t, run("", "list").Backups[0].Failed != "")
}

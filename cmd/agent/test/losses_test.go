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

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A backup warns of each loss of its dump. A restore and a check succeed without the lost parts.
func TestLossesAreNamed(t *testing.T) {
	engines := map[string]string{server.MariaDB: "MRG_MyISAM", server.MySQL: "MRG_MYISAM"} // each flavour spells MERGE differently
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, to := rig.Start(t, flavour), folder(t)
			s.Exec("CREATE DATABASE aa",
				"CREATE TABLE aa.texts (id INT PRIMARY KEY, old VARCHAR(9) CHARACTER SET sjis, west VARCHAR(9) CHARACTER SET latin1, new VARCHAR(9) CHARACTER SET utf8mb4)",
				"CREATE VIEW aa.shown AS SELECT old FROM aa.texts",
				"CREATE TABLE aa.m1 (id INT NOT NULL, KEY (id)) ENGINE=MyISAM", "CREATE TABLE aa.m2 LIKE aa.m1", "INSERT INTO aa.m1 VALUES (1)", "INSERT INTO aa.m2 VALUES (2), (3)",
				"CREATE TABLE aa.merged (id INT NOT NULL, KEY (id)) ENGINE=MERGE UNION=(aa.m1, aa.m2) INSERT_METHOD=LAST",
				"CREATE TABLE aa.keyless (f FLOAT, u INT NULL, KEY (f), UNIQUE (u))", "CREATE TABLE aa.keyed (f FLOAT, u INT NOT NULL, UNIQUE (u))", "CREATE TABLE aa.byfloat (f FLOAT PRIMARY KEY)", "CREATE TABLE aa.exact (d DOUBLE)",
				"CREATE TABLE mysql.mine (id INT PRIMARY KEY)", "CREATE VIEW mysql.seen AS SELECT id FROM mysql.mine", "CREATE PROCEDURE mysql.proc() SELECT 1", "CREATE FUNCTION sys.f() RETURNS INT DETERMINISTIC RETURN 1",
				"CREATE EVENT mysql.ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
				"CREATE TABLE aa.stops (value VARCHAR(30)) ENGINE=InnoDB", "SET GLOBAL innodb_ft_server_stopword_table = 'aa/stops'",
				"CREATE TABLE aa.docs (id INT PRIMARY KEY, v TEXT, FULLTEXT KEY ft (v)) ENGINE=InnoDB")
			keyless := "a replay of the archive fails at the first change of a row whose values the dump has changed, because these tables have no key that identifies a row: " +
				"give them a primary key, or copy files (method: Files) (2): `aa`.`byfloat`, `aa`.`keyless`"
			if flavour == server.MySQL {
				s.Exec("CREATE TABLE aa.leaves (j JSON)")
				keyless = strings.Replace(keyless, "(2): `aa`.`byfloat`, `aa`.`keyless`", "(3): `aa`.`byfloat`, `aa`.`keyless`, `aa`.`leaves`", 1)
			}
			want := []string{
				"tables in schemas of the server are not in the backup: move them to another schema (1): `mysql`.`mine`",
				"views, routines and events in schemas of the server are not in the backup: move them to another schema (4): event `mysql`.`ev`, function `sys`.`f`, procedure `mysql`.`proc`, " +
					"view `mysql`.`seen`",
				"dumps are made in utf8mb4, which does not keep each character of the character set of these columns: convert them to utf8mb4 (1): `aa`.`texts`.`old`",
				"a restore builds full-text indexes without the stopwords of innodb_ft_server_stopword_table (aa/stops): drop and add the indexes afterwards (1): `aa`.`docs`",
				"dumps round FLOAT columns to six digits: use DOUBLE or DECIMAL (3): `aa`.`byfloat`.`f`, `aa`.`keyed`.`f`, `aa`.`keyless`.`f`",
				keyless,
				"a dump may make different values of these unique keys equal, and then a restore fails: use other types or utf8mb4, or copy files (method: Files) (1): `aa`.`byfloat`.`PRIMARY`",
				"tables that are not InnoDB have no snapshot, so their rows may be newer than the position (2): `aa`.`m1` (MyISAM), `aa`.`m2` (MyISAM)",
				"the backup may have only the definitions of these tables, whose engines can keep rows in other tables, files or servers (1): `aa`.`merged` (" + engines[flavour] + ")",
			}
			o := options(s, to, nil)
			if flavour == server.MariaDB {
				s.Exec("CREATE TABLE aa.versions (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO aa.versions VALUES (1), (2)", "DELETE FROM aa.versions WHERE id = 1")
				old := filepath.Join(t.TempDir(), "mysqldump") // like the program of MariaDB 10.10, which lacks this option
				assert.NilError(t, os.WriteFile(old, []byte("#!/bin/sh\ncase \"$*\" in *--dump-history*) exit 2;; *--help*) "+o.DumpProgram+` "$@" | grep -v dump-history; exit;; esac`+"\nexec "+o.DumpProgram+` "$@"`+"\n"), 0o755))
				o.DumpProgram = old
				want = append(want, "the former rows of system-versioned tables are not in the backup, because mysqldump of the image cannot dump them: use an image of MariaDB 10.11 or newer (1): `aa`.`versions`")
			} else {
				s.Exec("CREATE TABLE aa.papers (id INT PRIMARY KEY, j JSON)", "CREATE USER two@'%' IDENTIFIED BY 'old'", "ALTER USER two@'%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD",
					"CREATE RESOURCE GROUP nightly TYPE = USER VCPU = 0 THREAD_PRIORITY = 5 DISABLE")
				want = append(want, "dumps have JSON as text, in which a DATETIME, DATE, TIME, DECIMAL or BLOB inside a JSON value becomes a STRING or a DOUBLE (2): `aa`.`leaves`.`j`, `aa`.`papers`.`j`",
					"the former passwords of accounts with two passwords are not in the backup: ALTER USER … DISCARD OLD PASSWORD when no client uses them (1): 'two'@'%'")
			}
			made, _, err := backup.Run(t.Context(), o)
			assert.NilError(t, err)
			slices.Sort(want)
			slices.Sort(made.Warnings)
			assert.DeepEqual(t, made.Warnings, want)
			s.Exec("SET GLOBAL innodb_ft_server_stopword_table = DEFAULT")
			of, _, err := backup.Run(t.Context(), options(s, folder(t), nil))
			assert.NilError(t, err)
			assert.Assert(t, slices.Contains(of.Warnings, "tables may hold stopwords of a session's innodb_ft_user_stopword_table (`aa`.`stops`.`value`), and a restore builds full-text indexes without them: "+
				"drop and add the indexes that were built with them afterwards (1): `aa`.`docs`"), "%q", of.Warnings)
			restored(t, flavour, to, nil, func(out restore.Outcome, o server.Options) {
				conn, err := server.Connect(t.Context(), o)
				assert.NilError(t, err)
				defer conn.Close()
				rows, err := conn.Value("SELECT GROUP_CONCAT(id ORDER BY id) FROM aa.merged")
				assert.NilError(t, err)
				assert.Equal(t, rows, "1,2,3")
				if flavour == server.MySQL {
					group, err := conn.Value("SELECT CONCAT_WS(' ', RESOURCE_GROUP_TYPE, RESOURCE_GROUP_ENABLED, CAST(VCPU_IDS AS CHAR), THREAD_PRIORITY) FROM information_schema.RESOURCE_GROUPS WHERE RESOURCE_GROUP_NAME = 'nightly'")
					assert.NilError(t, err)
					assert.Equal(t, group, "USER 0 0 5", "%q", out.Warnings)
				}
			})
		})
	}
}

// ignored are character sets of which a function of the server accepts bytes that tables reject.
var ignored = map[string]string{server.MySQL: "ascii", server.MariaDB: "ucs2"}

// A conversion to utf8mb4 and back changes characters of some character sets. A backup warns of exactly these sets.
func TestLossyCharacterSets(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := rig.Start(t, flavour)
			s.Exec("CREATE DATABASE aa", "CREATE TABLE aa.n (n INT PRIMARY KEY)")
			for from := range 256 { // all numbers of one and two bytes
				var values []string
				for n := range 256 {
					values = append(values, fmt.Sprintf("(%d)", from*256+n))
				}
				s.Exec("INSERT INTO aa.n VALUES " + strings.Join(values, ","))
			}
			s.Exec("SET GLOBAL sql_mode = ''")
			var have, lossy []string
			for _, set := range strings.Fields(s.Ask("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")) {
				if slices.Contains([]string{"binary", "utf32", ignored[flavour]}, set) {
					continue
				}
				if slices.Contains(backup.Lossy(flavour), set) {
					have = append(have, set)
				}
				bytes := []string{"SELECT UNHEX(LPAD(HEX(n), IF(n < 256, 2, 4), '0')) AS x FROM aa.n WHERE n > 0"}
				switch set {
				case "ujis", "eucjpms": // codes of three bytes begin with 8F
					bytes = append(bytes, "SELECT UNHEX(CONCAT('8F', LPAD(HEX(n), 4, '0'))) AS x FROM aa.n")
				case "gb18030": // four bytes are two pairs
					const pair = " DIV 256 BETWEEN 129 AND 254 AND %[1]s.n % 256 BETWEEN 48 AND 57"
					bytes = append(bytes, "SELECT UNHEX(CONCAT(HEX(one.n), HEX(two.n))) AS x FROM aa.n one, aa.n two WHERE one.n"+strings.ReplaceAll(pair, "%[1]s", "one")+" AND two.n"+strings.ReplaceAll(pair, "%[1]s", "two"))
				}
				for _, x := range bytes {
					lost := s.Ask(strings.NewReplacer("SET_", set, "BYTES_", x).Replace("SELECT IFNULL(SUM(NOT HEX(CONVERT(CONVERT(v USING utf8mb4) USING SET_)) <=> HEX(x)), 0) FROM " +
						"(SELECT x, CONVERT(x USING SET_) AS v FROM (BYTES_) bytes) texts WHERE v IS NOT NULL AND HEX(v) = HEX(x) AND CHAR_LENGTH(v) = 1"))
					if strings.TrimSpace(lost) != "0" && !slices.Contains(lossy, set) {
						lossy = append(lossy, set)
					}
				}
			}
			slices.Sort(have)
			slices.Sort(lossy)
			assert.DeepEqual(t, lossy, have)
			if len(have) < 15 {
				t.Errorf("the server has only %v", have)
			}
		})
	}
}

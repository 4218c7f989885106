// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A database with everything that a server can contain is backed up while its schema, accounts and rows change. It is restored to random
// points in time. A reader that shares no code with the agent compares values and bytes. Files lose nothing. A dump loses only what its
// warnings name.
func TestSchemaZooIsRestoredAsItWas(t *testing.T) {
	rig.Long(t)
	for _, name := range []string{"mariadb dump", "mysql dump", "mysql files"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, name)
			k.changeDuringBackup()
			k.Exec("XA COMMIT 'kept'", "XA ROLLBACK 'dropped'")
			k.isLate = true
			type moment struct {
				end  restore.Until
				want reading
			}
			var moments []moment
			for range rig.Seeds(1, 20) {
				for range 8 + k.random.Intn(12) {
					k.change()
				}
				k.Exec("FLUSH BINARY LOGS")
				at := k.LogEnd()
				moments = append(moments, moment{restore.Until{Position: &at}, readZoo(t, k.Server)})
			}
			k.settled()
			k.Exec(k.removed...)
			for _, m := range moments {
				r, out := k.restored(&m.end)
				k.judge(differ(t, readZoo(t, r), m.want, slices.Concat(k.warnings, out.Warnings)...), out)
				r.Kill()
			}
		})
	}
}

// keeper changes the zoo on a server, and backs it up.
type keeper struct {
	*original
	random    *rand.Rand
	elsewhere string
	step      int
	isLate    bool     // the backup is complete
	warnings  []string // of the backup
	removed   []string // statements that drop the tables in the folder elsewhere: restored servers would use the same files
}

// newKeeper starts a server with the zoo. Two XA transactions are prepared.
func newKeeper(t *testing.T, name string) *keeper {
	t.Helper()
	flavour, method, _ := strings.Cut(name, " ")
	k := &keeper{elsewhere: filepath.Join(t.TempDir(), "elsewhere"), random: chance.New(t, 7)}
	assert.NilError(t, os.Mkdir(k.elsewhere, 0o755))
	more := []string{"TZ=CST-8", "--event-scheduler=OFF", "--default-storage-engine=InnoDB"}
	if flavour == server.MySQL { // MariaDB has only the stopword table of a session
		more = append(more, "--innodb-directories="+k.elsewhere, "--max-execution-time=1000", "--innodb-ft-server-stopword-table=zoo/stops")
	}
	k.original = observed(t, rig.Start(t, flavour, more...))
	k.isCopied = method == "files"
	k.Exec(zone...)
	sets := strings.Fields(k.Ask("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS"))
	k.Exec("CREATE DATABASE zoo", "CREATE TABLE zoo.stops (value VARCHAR(30)) ENGINE=InnoDB", "INSERT INTO zoo.stops VALUES ('hidden')")
	k.run(zoo(flavour, k.elsewhere, sets)[1:])
	k.run(rarities(flavour, sets))
	for _, name := range []string{"kept", "dropped"} { // prepared while the backup is made
		k.Exec("XA START '"+name+"'", "INSERT INTO zoo.flight VALUES ('"+name+"')", "XA END '"+name+"'", "XA PREPARE '"+name+"'")
	}
	if !k.isCopied {
		k.removed = []string{"DROP TABLE zoo.placed"}
	}
	return k
}

// run runs statements in one session. Until a copy of the files is complete, all tables are InnoDB and in the data folder.
func (k *keeper) run(statements []string) {
	k.T.Helper()
	if k.isCopied && !k.isLate {
		statements = copyable(statements)
	}
	k.Exec(statements...)
}

var (
	otherEngine = regexp.MustCompile("ENGINE=(MyISAM|MEMORY|CSV|BLACKHOLE)")
	notCopyable = regexp.MustCompile(`zoo\.(wider|merge)`)
)

// copyable returns the statements for a zoo whose files can be copied.
func copyable(statements []string) (changed []string) {
	for _, statement := range statements {
		if !notCopyable.MatchString(statement) {
			changed = append(changed, directoryClause.ReplaceAllString(otherEngine.ReplaceAllString(statement, "ENGINE=InnoDB"), ""))
		}
	}
	return changed
}

func (k *keeper) change() {
	k.T.Helper()
	k.run(changeZoo(k.step, k.random))
	k.run(changeRarities(k.step, k.Flavour))
	if k.isLate {
		k.run(k.changeLate())
	}
	k.step++
}

// changeLate returns statements that are possible only after the backup: changes of tables without a snapshot, and tables in another folder.
func (k *keeper) changeLate() []string {
	n := k.step
	switch k.step % 3 {
	case 0:
		name := fmt.Sprintf("zoo.late%d", n)
		k.removed = append(k.removed, "DROP TABLE "+name)
		return []string{fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, f FLOAT) DATA DIRECTORY='%s'", name, k.elsewhere), fmt.Sprintf("INSERT INTO %s VALUES (1, 16777219), (2, 1.4e-45)", name)}
	case 1:
		return []string{fmt.Sprintf("CREATE TABLE zoo.late_a%d (id INT NOT NULL, KEY (id)) ENGINE=MyISAM", n), fmt.Sprintf("CREATE TABLE zoo.late_b%d LIKE zoo.late_a%d", n, n), fmt.Sprintf("INSERT INTO zoo.late_a%d VALUES (1)", n),
			fmt.Sprintf("CREATE TABLE zoo.late_m%d (id INT NOT NULL, KEY (id)) ENGINE=MERGE UNION=(zoo.late_a%d, zoo.late_b%d) INSERT_METHOD=LAST", n, n, n), fmt.Sprintf("INSERT INTO zoo.late_m%d VALUES (2)", n)}
	}
	return []string{"UPDATE zoo.floats SET f = f / 3 WHERE id = 8", "DELETE FROM zoo.floats WHERE id = 7", "UPDATE zoo.cs_cp1251 SET s = '' WHERE id = 1000"}
}

// changeDuringBackup backs the zoo up while it changes.
func (k *keeper) changeDuringBackup() {
	k.T.Helper()
	with := options(k.Server, k.to, k.identity)
	if k.isCopied {
		k.Exec("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
		with = copying(k.Server, k.to, k.identity)
	}
	ctx, stop := context.WithCancel(k.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := 100 * time.Millisecond; ctx.Err() == nil; pause += pause / 4 { // the pauses become longer, so that a dump finally sees an unchanged schema
			k.change() //nolint:contextcheck // it uses the context of the test

			for rest := time.Now().Add(pause); ctx.Err() == nil && time.Now().Before(rest); time.Sleep(20 * time.Millisecond) { // polling interval; each pause is longer than the last
				k.Exec(changeZoo(0, k.random)[:4]...) //nolint:contextcheck // it uses the context of the test
			}
		}
	}()
	var made *manifest.Backup
	var err error
	for range 20 {
		if made, _, err = backup.Run(k.T.Context(), with); !errors.Is(err, dump.ErrChanged) && !errors.Is(err, dump.ErrCrashed) {
			break
		}
	}
	stop()
	<-done
	assert.NilError(k.T, err)
	assert.Equal(k.T, made.Base == manifest.Physical, k.isCopied, "%q", made.Warnings)
	k.warnings = made.Warnings
	k.T.Logf("the backup was made during %d changes", k.step)
	if k.isCopied {
		assert.Equal(k.T, len(made.Warnings), 0, "%q", made.Warnings)
	}
}

// judge checks the differences that warnings name, and the warnings of a restore. The restored database has at least the known losses of a
// dump: otherwise the reader would be blind.
func (k *keeper) judge(accepted []string, out restore.Outcome) {
	k.T.Helper()
	for _, line := range accepted {
		k.T.Logf("named: %.300s", line)
	}
	warned := strings.Join(out.Warnings, "\n")
	if k.isCopied {
		accepted = slices.DeleteFunc(accepted, func(line string) bool { return strings.Contains(line, "`late") })
		assert.Equal(k.T, len(accepted), 0, "%q", accepted)
		assert.Equal(k.T, len(out.Warnings), 1, "%q", out.Warnings) // the test's process has another time zone
		assert.Assert(k.T, strings.Contains(warned, "system_time_zone"), warned)
		return
	}
	losses := []string{"`floats`.`f`", "`cs_gbk`.`b`", "words `zoo`.`ft_session`"}
	if k.Flavour == server.MySQL {
		losses = append(losses, "`docs`.`j`", "words `zoo`.`ft_server`", "account 'twofold'@'%' lacks second password")
	}
	for _, loss := range losses {
		assert.Check(k.T, strings.Contains(strings.Join(accepted, "\n"), loss), "the reader does not see %s", loss)
	}
	if strings.Count(warned, "a_first") != 1 || strings.Count(warned, "gone") > 1 || len(out.Warnings) > 3 {
		k.T.Errorf("%d transactions, %q", out.Transactions, out.Warnings)
	}
}

// changeZoo returns the statements of a step. It alternates between rows, definitions and accounts.
func changeZoo(step int, random *rand.Rand) []string {
	n := step/13 + 1
	rows := []string{
		fmt.Sprintf("INSERT INTO zoo.orders (note, amount) VALUES (REPEAT('%c', %d), %d.5)", 'a'+rune(random.Intn(26)), random.Intn(3000), random.Intn(1000)),
		"UPDATE zoo.orders SET amount = amount + 1 ORDER BY id DESC LIMIT 3", "UPDATE zoo.nokey SET d = d + 0.25 LIMIT 2", "DELETE FROM zoo.orders WHERE id % 7 = 3 LIMIT 1",
	}
	changes := [][]string{
		{fmt.Sprintf("CREATE TABLE zoo.made%d (id INT PRIMARY KEY AUTO_INCREMENT, at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP)", n), fmt.Sprintf("INSERT INTO zoo.made%d () VALUES (), ()", n)},
		{fmt.Sprintf("ALTER TABLE zoo.made%d ADD COLUMN added DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, MODIFY ts DATETIME", n)},
		{fmt.Sprintf("CREATE USER zoo%d@'%%' IDENTIFIED BY 'pw%d'", n, n), fmt.Sprintf("GRANT SELECT, INSERT ON zoo.orders TO zoo%d@'%%'", n)},
		{fmt.Sprintf("CREATE VIEW zoo.v%d AS SELECT id, at FROM zoo.made%d", n, n)},
		{fmt.Sprintf("CREATE EVENT zoo.e%d ON SCHEDULE EVERY %d HOUR STARTS '2037-01-01 03:00:00' ON COMPLETION PRESERVE DO DELETE FROM zoo.made%d", n, n, n), fmt.Sprintf("CREATE EVENT zoo.o%d ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1", n)},
		{fmt.Sprintf("CREATE TRIGGER zoo.t%d BEFORE INSERT ON zoo.made%d FOR EACH ROW SET NEW.at = '2000-01-01'", n, n), fmt.Sprintf("INSERT INTO zoo.made%d () VALUES ()", n)},
		{fmt.Sprintf("CREATE FUNCTION zoo.f%d(a INT) RETURNS INT DETERMINISTIC RETURN a + %d", n, n)},
		{"SET time_zone = 'Test/Eight'", fmt.Sprintf("ALTER TABLE zoo.made%d ADD COLUMN zoned DATETIME DEFAULT CURRENT_TIMESTAMP", n), fmt.Sprintf("ALTER EVENT zoo.e%d COMMENT 'changed'", n)},
		{fmt.Sprintf("XA START 'x%d'", n), "INSERT INTO zoo.nokey VALUES (1, 'xa', 0.1)", fmt.Sprintf("XA END 'x%d'", n), fmt.Sprintf("XA PREPARE 'x%d'", n), fmt.Sprintf("XA COMMIT 'x%d'", n)},
		{fmt.Sprintf("RENAME TABLE zoo.made%d TO zoo.renamed%d", n, n), fmt.Sprintf("DROP VIEW zoo.v%d", n), fmt.Sprintf("ALTER TABLE zoo.renamed%d ENGINE=MyISAM", n)},
		{"ALTER TABLE zoo.parts EXCHANGE PARTITION p1 WITH TABLE zoo.alone", fmt.Sprintf("INSERT INTO zoo.alone VALUES (%d)", 100+step)},
		{"RENAME TABLE zoo.one TO zoo.three, zoo.two TO zoo.one, zoo.three TO zoo.two", fmt.Sprintf("INSERT INTO zoo.one (n) VALUES ('%d')", step)},
		{fmt.Sprintf("ALTER USER zoo%d@'%%' IDENTIFIED BY 'other'", n), "UPDATE zoo.versioned SET a = a + 1", "INSERT INTO zoo.mem VALUES (NULL, 'new')", "UPDATE zoo.mem SET b = CONCAT(b, 'x') LIMIT 1"},
	}
	return append(rows, changes[step%len(changes)]...)
}

// zoo returns the statements that create the database, with a table in each character set. InnoDB has at most 1,017 columns.
func zoo(flavour, elsewhere string, sets []string) []string {
	var wide, wider, charsets []string
	for i := range 1200 {
		wide = append(wide, fmt.Sprintf("customer_column_number_%04d INT DEFAULT %d", i, i))
		wider = append(wider, fmt.Sprintf("c%04d TINYINT DEFAULT %d", i, i%100))
	}
	for _, c := range sets {
		charsets = append(charsets, fmt.Sprintf("CREATE TABLE zoo.cs_%s (id INT PRIMARY KEY, a VARCHAR(50), b TEXT, c CHAR(3), e ENUM('a','b'), s SET('x','y'), KEY (a)) DEFAULT CHARSET=%s", c, c),
			fmt.Sprintf("INSERT INTO zoo.cs_%s VALUES (1, 'plain', 'it''s \\\\ \"text\"', 'a', 'b', 'x,y'), (2, '', NULL, '  ', 'a', '')", c))
	}
	all := []string{"CREATE DATABASE zoo", "CREATE TABLE zoo.flight (name VARCHAR(20))", "CREATE DATABASE `o``dd.na me\n%_` CHARACTER SET latin1 COLLATE latin1_german2_ci",
		"CREATE TABLE zoo.orders (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, note VARCHAR(4000), amount DECIMAL(30,10) NOT NULL DEFAULT 1, twice DECIMAL(32,10) AS (amount * 2) STORED, half DOUBLE AS (amount / 2) VIRTUAL, KEY (half), " +
			"UNIQUE KEY u (id, note(20)), KEY d (amount DESC)) AUTO_INCREMENT=1000",
		"CREATE TABLE zoo.types (id INT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT ZEROFILL, d BIGINT UNSIGNED, e FLOAT, f DOUBLE, g DECIMAL(65,30), h BIT(17), i DATE, j DATETIME(6), k TIMESTAMP(3) NULL, l TIME(6), " +
			"m YEAR, n BINARY(5), o VARBINARY(20), p TINYBLOB, q MEDIUMBLOB, r LONGTEXT, s JSON, u BOOLEAN, v CHAR(0), w NCHAR(3), x GEOMETRY, y POINT, z POLYGON) ROW_FORMAT=DYNAMIC",
		"SET sql_mode = ''",
		`INSERT INTO zoo.types VALUES (1, -128, 65535, 5, 18446744073709551615, 1.5, 1.7976931348623157e308, 1.000000000000000000000000000001, b'10101', '0000-00-00', '2026-02-30', NULL, '-838:59:59', 2155, '\0\0', 'a\0''"\\', '', NULL, 'x', ` +
			`'{"a": [1, "ü\\n", null]}', 1, '', 'äöü', ST_GeomFromText('LINESTRING(0 0,1 1)'), ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'))`,
		"INSERT INTO zoo.types (id, i, j, l, f) VALUES (2, '2000-00-00', '9999-12-31 23:59:59.999999', '00:00:00.000001', 4.9e-324), (0, '0001-01-01', '0000-00-00', NULL, -0.0)",
		"CREATE TABLE zoo.nokey (a INT, b VARCHAR(20), d DOUBLE)", "INSERT INTO zoo.nokey VALUES (1, 'x', 0.1), (1, 'x', 0.1), (NULL, NULL, NULL)",
		"CREATE TABLE zoo.wide (id INT PRIMARY KEY, hidden INT INVISIBLE DEFAULT 4711, sum INT AS (id + 1) STORED, " + strings.Join(wide[:1000], ", ") + ")", "INSERT INTO zoo.wide (id) VALUES (1), (2)",
		"CREATE TABLE zoo.ft (id INT PRIMARY KEY, b TEXT, FULLTEXT KEY words (b)) ENGINE=InnoDB", "INSERT INTO zoo.ft VALUES (1, 'full text search')",
		"CREATE TABLE zoo.geo (id INT PRIMARY KEY, g GEOMETRY NOT NULL, SPATIAL KEY (g))", "INSERT INTO zoo.geo VALUES (1, ST_GeomFromText('POINT(1 1)'))",
		"CREATE TABLE zoo.part (id INT, at DATE, PRIMARY KEY (id, at)) PARTITION BY RANGE (YEAR(at)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION old VALUES LESS THAN (2000), PARTITION new VALUES LESS THAN MAXVALUE)",
		"INSERT INTO zoo.part VALUES (1, '1999-01-01'), (2, '2020-01-01')",
		"CREATE TABLE zoo.parent (id INT PRIMARY KEY, self INT, CONSTRAINT loop_ FOREIGN KEY (self) REFERENCES zoo.parent (id) ON DELETE SET NULL)",
		"CREATE TABLE `o``dd.na me\n%_`.`ta``b le\n'\"` (`co``l\nx` INT, `p` INT PRIMARY KEY, `INSERT INTO` INT COMMENT 'it''s; \n-- x', FOREIGN KEY (`co``l\nx`) REFERENCES zoo.parent (id) ON UPDATE CASCADE) COMMENT='INSERT INTO `x` VALUES (1);\n;;'",
		"INSERT INTO zoo.parent VALUES (1, 1), (2, 1)", "INSERT INTO `o``dd.na me\n%_`.`ta``b le\n'\"` VALUES (1, 1, 1), (2, 2, 2)",
		"CREATE TABLE zoo.`naïve ☃` (`ключ` INT PRIMARY KEY COMMENT 'ü')", "INSERT INTO zoo.`naïve ☃` VALUES (1)",
		"CREATE TABLE zoo.mem (id INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(50)) ENGINE=MEMORY", "INSERT INTO zoo.mem VALUES (NULL, 'a'), (NULL, 'b')",
		"CREATE TABLE zoo.isam (id INT PRIMARY KEY, b TEXT, FULLTEXT (b)) ENGINE=MyISAM", "INSERT INTO zoo.isam VALUES (1, 'x')", "CREATE TABLE zoo.csv (a INT NOT NULL, b VARCHAR(10) NOT NULL) ENGINE=CSV", "INSERT INTO zoo.csv VALUES (1, 'a\"b')",
		"CREATE TABLE zoo.archive (a INT) ENGINE=BLACKHOLE", "CREATE TABLE zoo.placed (id INT PRIMARY KEY) DATA DIRECTORY='" + elsewhere + "' COMMENT='placed'", "INSERT INTO zoo.placed VALUES (1)",
		"CREATE TABLE zoo.big (id INT PRIMARY KEY, b LONGBLOB)", "INSERT INTO zoo.big VALUES (1, REPEAT('x''\\\\\n', 6000000))",
		"CREATE TABLE zoo.packed (id INT PRIMARY KEY, b TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4", "INSERT INTO zoo.packed VALUES (1, REPEAT('y', 5000))",
		"CREATE TABLE zoo.versioned (id INT PRIMARY KEY, a INT)", "INSERT INTO zoo.versioned VALUES (1, 1)",
		"CREATE FUNCTION zoo.plus(a INT) RETURNS INT DETERMINISTIC RETURN a + 1", "CREATE VIEW zoo.calls AS SELECT zoo.plus(id) AS p FROM zoo.parent", "CREATE VIEW zoo.over AS SELECT p FROM zoo.calls WHERE p > 1",
		"SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
		`CREATE PROCEDURE zoo."pro;;c"(INOUT x VARCHAR(10) CHARACTER SET latin1) SQL SECURITY INVOKER COMMENT 'it''s' BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'a\'; -- $$ ;;` + "\nSELECT 'x' || 'y' AS \"col\"; END",
		`CREATE TRIGGER zoo.first BEFORE INSERT ON zoo.orders FOR EACH ROW SET NEW.note = CONCAT(NEW.note, '\')`, "SET sql_mode = ''",
		"CREATE TRIGGER zoo.second BEFORE INSERT ON zoo.orders FOR EACH ROW PRECEDES first SET NEW.note = CONCAT(IFNULL(NEW.note, ''), 'p')",
		"SET time_zone = 'Test/Eight'", "CREATE EVENT zoo.zoned ON SCHEDULE EVERY 1 WEEK STARTS '2037-03-03 03:03:03' ENDS '2038-01-01 00:00:00' DO BEGIN DELETE FROM zoo.nokey WHERE a = 99; END",
		"CREATE EVENT zoo.once ON SCHEDULE AT '2037-05-05 05:05:05' ON COMPLETION PRESERVE DISABLE COMMENT 'it''s' DO SELECT 'ü'", "SET time_zone = SYSTEM",
		"CREATE SERVER `far` FOREIGN DATA WRAPPER mysql OPTIONS (HOST '10.0.0.1', USER 'u', PASSWORD 'p''w', PORT 3307, DATABASE 'd')",
		"CREATE USER zoo_plain@'%' IDENTIFIED BY 'x'", "GRANT SELECT (a), UPDATE (b) ON zoo.nokey TO zoo_plain@'%'", "GRANT EXECUTE ON FUNCTION zoo.plus TO zoo_plain@'%'", "GRANT ALL ON `zo\\_o%`.* TO zoo_plain@'%' WITH GRANT OPTION",
		"CREATE TABLE zoo.parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)", "INSERT INTO zoo.parts VALUES (1), (2), (100)",
		"CREATE TABLE zoo.alone (id INT PRIMARY KEY)", "CREATE TABLE zoo.one (id INT PRIMARY KEY AUTO_INCREMENT, n VARCHAR(20))", "CREATE TABLE zoo.two LIKE zoo.one", "INSERT INTO zoo.two (n) VALUES ('two')",
		"CREATE TABLE zoo.gone (id INT)", "CREATE VIEW zoo.a_first AS SELECT * FROM zoo.gone", "GRANT SELECT ON zoo.gone TO zoo_plain@'%'", "DROP TABLE zoo.gone",
	}
	all = append(append(all, charsets...), "CREATE TABLE zoo.wider (id INT PRIMARY KEY, hidden INT INVISIBLE DEFAULT 7, "+strings.Join(wider, ", ")+") ENGINE=MyISAM", "INSERT INTO zoo.wider (id) VALUES (1), (2)")
	if rig.Full() { // a row of 66 MiB; the reader shows its columns in hexadecimal
		all = append(all, "CREATE TABLE zoo.long_ (id INT PRIMARY KEY, a LONGBLOB, b LONGTEXT, c LONGBLOB)",
			"INSERT INTO zoo.long_ VALUES (1, REPEAT('\\0\\'\\n\\\\', 5767168), REPEAT('ab', 11534336), REPEAT(X'ff00', 11534336))")
	}
	if flavour == server.MariaDB {
		return append(all, "ALTER TABLE zoo.versioned ADD SYSTEM VERSIONING", "UPDATE zoo.versioned SET a = 2", "UPDATE zoo.versioned SET a = 3", "INSERT INTO zoo.versioned VALUES (2, 2)", "DELETE FROM zoo.versioned WHERE id = 2",
			"CREATE SEQUENCE zoo.seq START 100 INCREMENT 5 CACHE 10 CYCLE MAXVALUE 100000", "SELECT NEXTVAL(zoo.seq)", "CREATE TABLE zoo.by_seq (id INT PRIMARY KEY DEFAULT NEXTVAL(zoo.seq), a INT)", "INSERT INTO zoo.by_seq (a) VALUES (1), (2)",
			"CREATE TABLE zoo.checked (a INT)", "INSERT INTO zoo.checked VALUES (5)", "SET check_constraint_checks = 0", "ALTER TABLE zoo.checked ADD CONSTRAINT small CHECK (a < 3)", "SET check_constraint_checks = 1",
			"CREATE TABLE zoo.squeezed (id INT PRIMARY KEY, b TEXT COMPRESSED, u UUID DEFAULT UUID(), i INET6) PAGE_COMPRESSED=1", "INSERT INTO zoo.squeezed (id, b, i) VALUES (1, REPEAT('z', 9000), '::1')",
			"CREATE ROLE zoo_role", "GRANT SELECT ON zoo.* TO zoo_role", "CREATE ROLE zoo_lonely", "GRANT SELECT ON zoo.orders TO PUBLIC",
			"SET sql_mode = 'ORACLE'", "CREATE PACKAGE zoo.pack AS FUNCTION f RETURN INT; PROCEDURE p(a INT); END", "CREATE PACKAGE BODY zoo.pack AS n INT := 1; FUNCTION f RETURN INT AS BEGIN n := n + 1; RETURN n; END; PROCEDURE p(a INT) AS BEGIN SELECT a || 'x'; END; END", "SET sql_mode = ''", "GRANT zoo_role TO zoo_plain@'%'", "SET DEFAULT ROLE zoo_role FOR zoo_plain@'%'",
			"CREATE TABLE zoo.aria (a INT) ENGINE=Aria", "INSERT INTO zoo.aria VALUES (1)", "CREATE TABLE zoo.period (a INT, s DATE, e DATE, PERIOD FOR p (s, e), UNIQUE (a, p WITHOUT OVERLAPS))")
	}
	return append(all, "CREATE TABLE zoo.squeezed (id INT PRIMARY KEY, b TEXT) COMPRESSION='zlib'", "INSERT INTO zoo.squeezed VALUES (1, REPEAT('z', 9000))", "CREATE TABLESPACE zoo_space ADD DATAFILE 'zoo_space.ibd' ENGINE=InnoDB", "CREATE TABLE zoo.spaced (id INT PRIMARY KEY) TABLESPACE zoo_space", "INSERT INTO zoo.spaced VALUES (1)",
		"CREATE TABLE zoo.func (id INT PRIMARY KEY, j JSON, a VARCHAR(20) DEFAULT (UUID()), KEY ((CAST(j->'$.x' AS UNSIGNED ARRAY))), KEY f ((id + 1)), KEY inv (a) INVISIBLE, CHECK (id > 0) NOT ENFORCED)",
		"INSERT INTO zoo.func (id, j, a) VALUES (1, '{\"x\": [1, 2]}', 'a'), (-1, NULL, 'b')", "CREATE TABLE zoo.vec (id INT PRIMARY KEY, v VECTOR(3))", "INSERT INTO zoo.vec VALUES (1, STRING_TO_VECTOR('[1.5,2,3]'))",
		"CREATE TABLE zoo.located (id INT PRIMARY KEY, p POINT SRID 4326 NOT NULL, SPATIAL KEY (p))", "INSERT INTO zoo.located VALUES (1, ST_SRID(POINT(1, 2), 4326))",
		"CREATE ROLE zoo_role", "GRANT SELECT ON zoo.* TO zoo_role", "GRANT zoo_role TO zoo_plain@'%' WITH ADMIN OPTION", "SET DEFAULT ROLE zoo_role TO zoo_plain@'%'", "SET PERSIST long_query_time = 7",
		"SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE zoo.gipk (a INT)", "INSERT INTO zoo.gipk VALUES (7)", "SET SESSION sql_generate_invisible_primary_key = OFF")
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A database with everything that a server can contain is backed up while its schema, accounts and rows change. It is restored to random
// points in time. A reader that shares no code with the agent compares the databases.
func TestSchemaZooIsRestoredAsItWas(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			assert.NilError(t, os.Mkdir(elsewhere, 0o755))
			more := []string{"TZ=CST-8", "--event-scheduler=OFF", "--default-storage-engine=InnoDB"}
			if flavour == server.MySQL {
				more = append(more, "--innodb-directories="+elsewhere, "--max-execution-time=1000")
			}
			s := rig.Start(t, flavour, more...)
			o := observed(t, s)
			o.Exec(zone...)
			o.Exec(zoo(flavour, elsewhere, strings.Fields(o.Ask("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")))...)
			for _, name := range []string{"kept", "dropped"} { // prepared while the backup is made
				o.Exec("XA START '"+name+"'", "INSERT INTO zoo.flight VALUES ('"+name+"')", "XA END '"+name+"'", "XA PREPARE '"+name+"'")
			}
			random := chance.New(t, 7)
			step := 0
			change := func() { o.Exec(changeZoo(step, random)...); step++ }
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for pause := 100 * time.Millisecond; ctx.Err() == nil; pause += pause / 4 { // the pauses become longer, so that a dump finally sees an unchanged schema
					change()
					for rest := time.Now().Add(pause); ctx.Err() == nil && time.Now().Before(rest); time.Sleep(20 * time.Millisecond) { // polling interval; each pause is longer than the last
						o.Exec(changeZoo(0, random)[:4]...) //nolint:contextcheck // it uses the context of the test
					}
				}
			}()
			var err error
			for range 20 {
				if _, _, err = backup.Run(t.Context(), options(o.Server, o.to, o.identity)); !errors.Is(err, dump.ErrChanged) && !errors.Is(err, dump.ErrCrashed) {
					break
				}
			}
			stop()
			<-done
			assert.NilError(t, err)
			o.Exec("XA COMMIT 'kept'", "XA ROLLBACK 'dropped'")
			type moment struct {
				end  restore.Until
				want []string
			}
			var moments []moment
			for range rig.Seeds(1, 20) {
				for range 8 + random.Intn(12) {
					change()
				}
				o.Exec("FLUSH BINARY LOGS")
				at := o.LogEnd()
				moments = append(moments, moment{restore.Until{Position: &at}, readZoo(t, o.Server)})
			}
			o.settled()
			o.Exec("DROP TABLE zoo.placed") // the restored servers would use the same file
			for _, m := range moments {
				r, out := o.restored(&m.end)
				differ(t, readZoo(t, r), m.want)
				warned := strings.Join(out.Warnings, "\n")
				if strings.Count(warned, "a_first") != 1 || strings.Count(warned, "gone") > 1 || len(out.Warnings) > 3 {
					t.Errorf("%d transactions, %q", out.Transactions, out.Warnings)
				}
				r.Kill()
			}
		})
	}
}

// differ reports the lines that only one of two readings contains.
func differ(t *testing.T, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, line := range want {
		count[line]++
	}
	for _, line := range got {
		count[line]--
	}
	for line, n := range count {
		if strings.Contains(line, "gone") || strings.Contains(line, "a_first") || strings.Contains(line, "ENGINE=MEMORY") || strings.Contains(line, "COMMENT='placed'") {
			continue // expected: a grant on a dropped table, and a view of it; MEMORY tables are empty after a start; DATA DIRECTORY is not kept
		}
		if n > 0 {
			t.Errorf("missing in the restored database: %.700s", line)
		} else if n < 0 {
			t.Errorf("only in the restored database: %.700s", line)
		}
	}
}

// readZoo uses the client program to read everything that a server has, in two runs: first the names, then the content.
func readZoo(t *testing.T, s *rig.Server) []string {
	t.Helper()
	const user = "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
	name := func(schema, table string) string {
		return "CONCAT('`', REPLACE(" + schema + ", '`', '``'), '`.`', REPLACE(" + table + ", '`', '``'), '`')"
	}
	bodies := "CASE WHEN DATA_TYPE IN ('geometry','point','linestring','polygon','multipoint','multilinestring','multipolygon','geomcollection','geometrycollection','vector') THEN CONCAT('HEX(', q, ')') " +
		"WHEN DATA_TYPE IN ('longblob','mediumblob','blob','longtext','mediumtext') THEN CONCAT('SHA2(', q, ',256)') WHEN DATA_TYPE = 'float' THEN CONCAT('0e0+', q) " +
		"ELSE CONCAT('HEX(CAST(', q, ' AS BINARY))') END"
	questions := "SET SESSION group_concat_max_len = 10000000; SET SESSION sql_mode = ''; SET time_zone = '+00:00';\n" +
		"SELECT CONCAT('SHOW CREATE DATABASE `', REPLACE(SCHEMA_NAME, '`', '``'), '`;') FROM information_schema.SCHEMATA WHERE SCHEMA_NAME " + user + ";\n" +
		"SELECT CONCAT('SHOW CREATE TABLE ', " + name("TABLE_SCHEMA", "TABLE_NAME") + ", ';') FROM information_schema.TABLES WHERE TABLE_SCHEMA " + user + ";\n" +
		"SELECT CONCAT('SHOW CREATE ', ROUTINE_TYPE, ' ', " + name("ROUTINE_SCHEMA", "ROUTINE_NAME") + ", ';') FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA " + user + " AND ROUTINE_TYPE NOT LIKE 'PACKAGE%';\n" +
		"SELECT CONCAT('SHOW CREATE EVENT ', " + name("EVENT_SCHEMA", "EVENT_NAME") + ", ';') FROM information_schema.EVENTS;\n" +
		"SELECT CONCAT('SELECT ', QUOTE(" + name("TABLE_SCHEMA", "TABLE_NAME") + "), ',', GROUP_CONCAT(" + bodies + " ORDER BY ORDINAL_POSITION SEPARATOR ','), ' FROM ', " + name("TABLE_SCHEMA", "TABLE_NAME") +
		", IF(ANY_TYPE = 'SYSTEM VERSIONED', ' FOR SYSTEM_TIME ALL', ''), ';') FROM (SELECT c.*, t.TABLE_TYPE AS ANY_TYPE, CONCAT('`', REPLACE(COLUMN_NAME, '`', '``'), '`') AS q FROM information_schema.COLUMNS c " +
		"JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME) WHERE TABLE_SCHEMA " + user + " AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND IFNULL(t.ENGINE, '') <> 'MEMORY') x " +
		"GROUP BY TABLE_SCHEMA, TABLE_NAME, ANY_TYPE;\n" +
		"SELECT CONCAT('SHOW CREATE USER ', QUOTE(User), '@', QUOTE(Host), '; SHOW GRANTS FOR ', QUOTE(User), '@', QUOTE(Host), ';') FROM mysql.user WHERE Host <> '' AND User NOT IN ('mysql', 'mariadb.sys') AND User NOT LIKE 'mysql.%';\n"
	if s.Flavour == server.MariaDB {
		questions = strings.ReplaceAll(questions, "ANY_TYPE;", "ANY_TYPE;\nSELECT CONCAT('SHOW GRANTS FOR ', IF(User = 'PUBLIC', User, CONCAT('`', User, '`')), ';') FROM mysql.user WHERE Host = '';\n"+
			"SELECT CONCAT('SHOW CREATE ', ROUTINE_TYPE, ' ', "+name("ROUTINE_SCHEMA", "ROUTINE_NAME")+", ';') FROM information_schema.ROUTINES WHERE ROUTINE_TYPE LIKE 'PACKAGE%';")
	}
	var answers strings.Builder
	for line := range strings.Lines(client(t, s, questions)) {
		answers.WriteString(line)
	}
	answers.WriteString("SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_STATEMENT, ACTION_TIMING, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, " +
		"DATABASE_COLLATION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA <> 'sys';\n" +
		"SELECT EVENT_SCHEMA, EVENT_NAME, TIME_ZONE, STATUS, STARTS, EXECUTE_AT, DEFINER, SQL_MODE, EVENT_COMMENT FROM information_schema.EVENTS;\n" +
		"SELECT * FROM mysql.servers; SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', 'Test/Eight'), @@system_time_zone;\n")
	if s.Flavour == server.MySQL {
		answers.WriteString("SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables;\n")
	}
	for variable := range server.Variables {
		fmt.Fprintf(&answers, "SHOW GLOBAL VARIABLES LIKE '%s';\n", variable)
	}
	return strings.Split(client(t, s, "SET SESSION sql_mode = ''; SET time_zone = '+00:00';\n"+answers.String()), "\n")
}

// client runs statements in the client program and returns the output without creation times.
func client(t *testing.T, s *rig.Server, statements string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.Tools, "mysql"), "--no-defaults", "-uroot", "--socket="+s.Root().Address, "-N", "--raw", "--binary-mode", "--force", "--default-character-set=utf8mb4", "--max-allowed-packet=1G")
	if s.Flavour == server.MySQL {
		statements = "SET SESSION max_execution_time = 0;\n" + statements
	}
	cmd.Stdin = strings.NewReader(statements)
	words := &strings.Builder{}
	cmd.Stderr = words
	text, err := cmd.Output()
	if err != nil || strings.Contains(words.String(), "ERROR") {
		for line := range strings.Lines(words.String()) {
			if !strings.Contains(line, "1356") { // a view that the zoo breaks on purpose
				t.Errorf("read the server: %v: %s", err, line)
			}
		}
	}
	return string(text)
}

// changeZoo returns the statements of a step. It alternates between rows, definitions and accounts.
func changeZoo(step int, random *rand.Rand) []string {
	n := step/11 + 1
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

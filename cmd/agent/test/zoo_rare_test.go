// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// rarities returns the statements that add to the zoo what a dump loses: characters, JSON types, digits of FLOAT, stopwords and passwords.
func rarities(flavour string, sets []string) []string {
	all := []string{"SET sql_mode = '', group_concat_max_len = 10000000",
		"CREATE TABLE zoo.hex (n INT PRIMARY KEY)", "INSERT INTO zoo.hex VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15)",
		"CREATE TABLE zoo.n (n INT PRIMARY KEY)", "INSERT INTO zoo.n SELECT a.n * 4096 + b.n * 256 + c.n * 16 + d.n FROM zoo.hex a, zoo.hex b, zoo.hex c, zoo.hex d"}
	for _, set := range sets {
		all = append(all, characters(flavour, set)...)
	}
	all = append(all, "DROP TABLE zoo.n",
		"CREATE TABLE zoo.floats (id INT PRIMARY KEY, f FLOAT, d FLOAT(10,3), u FLOAT UNSIGNED)",
		"INSERT INTO zoo.floats VALUES (1, 0, 0, 0), (2, -0e0, -0e0, NULL), (3, 1.17549435e-38, 1, 2), (4, 1.4e-45, 1.2345, 3e38), (5, -5.877e-39, -1234567.891, 1e-40), (6, 3.4028234e38, 9999999.999, 16777219), "+
			"(7, -3.4028234e38, 0.001, 1.2345678), (8, 16777219, 16777.217, 0.1), (9, 0.1, 0.1, 0.3), (10, -123456.789, NULL, 0.333333333), (11, 3333333333.3, 3, 3)",
		"CREATE TABLE zoo.merge1 (id INT NOT NULL, KEY (id)) ENGINE=MyISAM", "CREATE TABLE zoo.merge2 LIKE zoo.merge1", "INSERT INTO zoo.merge1 VALUES (1)", "INSERT INTO zoo.merge2 VALUES (2), (3)",
		"CREATE TABLE zoo.merged (id INT NOT NULL, KEY (id)) ENGINE=MERGE UNION=(zoo.merge1, zoo.merge2) INSERT_METHOD=LAST",
		"CREATE TABLE zoo.ft_server (id INT PRIMARY KEY, b TEXT, FULLTEXT KEY words (b)) ENGINE=InnoDB", "INSERT INTO zoo.ft_server VALUES (1, 'hidden secret the plain')",
		"CREATE TABLE zoo.words_ (value VARCHAR(30)) ENGINE=InnoDB", "INSERT INTO zoo.words_ VALUES ('secret')", "SET innodb_ft_user_stopword_table = 'zoo/words_'",
		"CREATE TABLE zoo.ft_session (id INT PRIMARY KEY, b TEXT, FULLTEXT KEY words (b)) ENGINE=InnoDB", "INSERT INTO zoo.ft_session VALUES (1, 'hidden secret the plain')",
		"CREATE TABLE zoo.docs (id INT PRIMARY KEY, j JSON)", "INSERT INTO zoo.docs VALUES (1, '{\"a\": [1.10, 1e400, null, true, 18446744073709551615], \"b\": {}}'), (2, NULL), (3, '\"text\"'), (4, '[]')")
	if flavour == server.MariaDB { // JSON is text
		all[len(all)-1] = strings.Replace(all[len(all)-1], "1e400", "1e40", 1)
		return append(all, "INSERT INTO zoo.docs VALUES (5, '{ \"b\" : 1, \"a\": 1.10,\\t\"b\": 2}')")
	}
	all[len(all)-1] = strings.Replace(all[len(all)-1], "1e400", "1e300", 1)
	return append(all, "INSERT INTO zoo.docs SELECT 5, JSON_OBJECT('bit', h, 'float', e, 'double', f, 'decimal', g, 'date', i, 'time', l, 'year', m, 'binary', n, 'varbinary', o, 'blob', p, 'bool', u, 'point', y) FROM zoo.types WHERE id = 1",
		"INSERT INTO zoo.docs VALUES (6, JSON_OBJECT('datetime', CAST('2026-01-02 03:04:05.678' AS DATETIME(3)), 'timestamp', TIMESTAMP'2026-01-02 03:04:05', 'date', CAST('2026-01-02' AS DATE), 'time', CAST('-12:34:56' AS TIME), "+
			"'decimal', CAST(1.10 AS DECIMAL(20, 10)), 'binary', CAST(x'00ff' AS BINARY), 'bits', b'101', 'unsigned', CAST(18446744073709551615 AS UNSIGNED), 'small', 1e-310, 'whole', 1e0, 'negative', -0e0, 'null', NULL, "+
			"'list', JSON_ARRAY(CAST(1.50 AS DECIMAL(9, 2)), CAST('2026-01-01' AS DATE), x'ff'), 'object', JSON_OBJECT('date', CAST('2026-01-01' AS DATE))))",
		"INSERT INTO zoo.docs VALUES (7, CAST(CAST('2026-01-02' AS DATE) AS JSON)), (8, JSON_ARRAY(CAST('1.0' AS DECIMAL(5, 1)), 1))",
		"CREATE USER twofold@'%' IDENTIFIED BY 'old'", "ALTER USER twofold@'%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD",
		"CREATE RESOURCE GROUP zoo_group TYPE = USER VCPU = 0 THREAD_PRIORITY = 5 DISABLE")
}

// characters returns the statements that add each character of one or two bytes to the table of a character set. A row has the characters
// with the same first byte. The server itself selects the bytes that it accepts.
func characters(flavour, set string) []string {
	bytes := []string{"SELECT n DIV 256 AS first, n, UNHEX(LPAD(HEX(n), IF(n < 256, 2, 4), '0')) AS x FROM zoo.n"}
	switch set {
	case "ascii":
		if flavour == server.MySQL { // it accepts no other byte in a table
			bytes[0] += " WHERE n < 128"
		}
	case "utf32":
		bytes[0] = strings.Replace(bytes[0], "IF(n < 256, 2, 4)", "8", 1)
	case "utf8mb3", "utf8mb4": // the characters of Unicode's first plane
		bytes[0] = "SELECT n DIV 256 AS first, n, CAST(CONVERT(CONVERT(UNHEX(LPAD(HEX(n), 8, '0')) USING utf32) USING " + set + ") AS BINARY) AS x FROM zoo.n WHERE n NOT BETWEEN 0xD800 AND 0xDFFF"
	case "ujis", "eucjpms": // codes of three bytes begin with 8F
		bytes = append(bytes, "SELECT 1000 + n DIV 256 AS first, n, UNHEX(CONCAT('8F', LPAD(HEX(n), 4, '0'))) AS x FROM zoo.n")
	case "gb18030": // four bytes are two pairs
		if rig.Full() {
			const pair = " DIV 256 BETWEEN 129 AND 254 AND %[1]s.n % 256 BETWEEN 48 AND 57"
			bytes = append(bytes, "SELECT 100000 + one.n AS first, two.n AS n, UNHEX(CONCAT(HEX(one.n), HEX(two.n))) AS x FROM zoo.n one, zoo.n two WHERE one.n"+strings.ReplaceAll(pair, "%[1]s", "one")+" AND two.n"+strings.ReplaceAll(pair, "%[1]s", "two"))
		}
	}
	var statements []string
	for _, x := range bytes {
		statements = append(statements, strings.NewReplacer("SET_", set, "BYTES_", x).Replace("INSERT INTO zoo.cs_SET_ (id, a, b) SELECT 1000 + first, LEFT(b, 50), b FROM "+
			"(SELECT first, CONVERT(UNHEX(GROUP_CONCAT(HEX(x) ORDER BY n SEPARATOR '')) USING SET_) AS b FROM (SELECT first, n, x, CONVERT(x USING SET_) AS v FROM (BYTES_) bytes) texts "+
			"WHERE v IS NOT NULL AND HEX(v) = HEX(x) AND CHAR_LENGTH(v) = 1 GROUP BY first) rows_"))
	}
	return statements
}

// changeRarities returns the statements of a step for values that a dump loses. It also creates tables and accounts with such values.
func changeRarities(step int, flavour string) []string {
	n := step/5 + 1
	changes := [][]string{
		{fmt.Sprintf("CREATE TABLE zoo.rare%d (id INT PRIMARY KEY, f FLOAT, b VARCHAR(9) CHARACTER SET sjis, j JSON)", n), fmt.Sprintf("INSERT INTO zoo.rare%d VALUES (1, 1.2345678, x'815C', '{\"a\": 1.10}'), (2, 16777219, 'b', NULL)", n)},
		{fmt.Sprintf("UPDATE zoo.rare%d SET f = 7654321.5 WHERE id = 2", n), "UPDATE zoo.floats SET d = d + 0.125 WHERE id = 3", "UPDATE zoo.docs SET j = '{}' WHERE id = 4"},
		{fmt.Sprintf("ALTER TABLE zoo.rare%d ADD COLUMN g FLOAT DEFAULT 1.2345678", n)},
		{},
		{fmt.Sprintf("ALTER TABLE zoo.rare%d ENGINE=InnoDB, ADD COLUMN c CHAR(3) CHARACTER SET gbk DEFAULT 'c'", n)},
	}
	if flavour == server.MySQL {
		changes[1] = append(changes[1], "UPDATE zoo.docs SET j = JSON_SET(j, '$.at', CAST('2026-03-04' AS DATE)) WHERE id = 6")
		changes[3] = append(changes[3], fmt.Sprintf("CREATE USER twofold%d@'%%' IDENTIFIED BY 'old'", n), fmt.Sprintf("ALTER USER twofold%d@'%%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD", n))
	}
	return changes[step%len(changes)]
}

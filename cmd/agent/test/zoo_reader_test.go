// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// reading holds the lines that describe each object of a server. Its keys consist of a kind and a name: "rows `zoo`.`t`".
type reading map[string][]string

// marker begins the line before an object's lines. columnsMarker begins the line with the names of a table's columns.
const (
	marker        = "#object "
	columnsMarker = "#columns"
)

// users is the condition for the schemas that the server did not create.
const users = "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"

// ftWords are the words that the reader searches in each full-text index. The stopword tables of the zoo contain some of them.
var ftWords = []string{"full", "text", "the", "hidden", "secret", "plain"}

// quotedName returns an SQL expression for the quoted name of an object.
func quotedName(parts ...string) string {
	for i, part := range parts {
		parts[i] = "'`', REPLACE(" + part + ", '`', '``'), '`'"
	}
	return "CONCAT(" + strings.Join(parts, ", '.', ") + ")"
}

// begins returns an SQL expression for the statement that prints an object's marker.
func begins(kind, name string) string {
	return "'SELECT ''" + marker + kind + " ', HEX(" + name + "), ''';'"
}

// shows returns a query for the statements that print the definitions of objects.
func shows(kind, statement, name, from string) string {
	return "SELECT CONCAT(" + begins(kind, name) + ", ' SHOW CREATE ', " + statement + ", ' ', " + name + ", ';') FROM information_schema." + from + ";\n"
}

// valueOf returns an SQL expression for the text of an expression that selects a column's bytes. A FLOAT is converted to a DOUBLE, whose text is
// exact. An ENUM or a SET also has its number, and a JSON value has the types of its members. Long values have a hash.
func valueOf(flavour string) string {
	const long = "'geometry','point','linestring','polygon','multipoint','multilinestring','multipolygon','geomcollection','geometrycollection','vector'"
	json := ""
	if flavour == server.MySQL {
		types := ""
		for _, path := range []string{"$.*", "$[*]", "$.*[*]", "$.*.*"} {
			types += ", (SELECT GROUP_CONCAT(n, IFNULL(JSON_TYPE(v), ''null'') ORDER BY n) FROM JSON_TABLE(', q, ', ''" + path + "'' COLUMNS (n FOR ORDINALITY, v JSON PATH ''$'')) j)"
		}
		json = "WHEN DATA_TYPE = 'json' THEN CONCAT('IF(', q, ' IS NOT NULL, CONCAT_WS('' '', HEX(CAST(', q, ' AS CHAR)), JSON_TYPE(', q, ')" + types + "), NULL)') "
	}
	return "CASE WHEN DATA_TYPE IN (" + long + ") THEN CONCAT('HEX(', q, ')') " + json +
		"WHEN DATA_TYPE IN ('longblob','mediumblob','blob','longtext','mediumtext','text') THEN CONCAT('IF(LENGTH(', q, ') > 100000, SHA2(CAST(', q, ' AS BINARY), 256), HEX(CAST(', q, ' AS BINARY)))') " +
		"WHEN DATA_TYPE = 'float' THEN CONCAT(q, ' * 1e0') WHEN DATA_TYPE IN ('enum', 'set') THEN CONCAT('CONCAT(HEX(CAST(', q, ' AS BINARY)), '' '', ', q, ' + 0)') " +
		"ELSE CONCAT('HEX(CAST(', q, ' AS BINARY))') END"
}

// questions returns queries for the statements that read everything that a server has.
func questions(flavour string) string {
	table, account := quotedName("TABLE_SCHEMA", "TABLE_NAME"), "CONCAT(QUOTE(User), '@', QUOTE(Host))"
	var searches []string
	for _, word := range ftWords {
		searches = append(searches, "' SELECT ''"+word+"'', COUNT(*) FROM ', t, ' WHERE MATCH (', cols, ') AGAINST (''"+word+"'' IN BOOLEAN MODE);'")
	}
	stored := "' SELECT ''stored'', HEX(IFNULL(JSON_VALUE(Priv, ''$.authentication_string''), '''')), HEX(JSON_EXTRACT(Priv, ''$.auth_or'')) FROM mysql.global_priv WHERE User = ', QUOTE(User), ' AND Host = ', QUOTE(Host), ';'"
	more := "SELECT CONCAT(" + begins("role", "User") + ", ' SHOW GRANTS FOR ', IF(User = 'PUBLIC', User, CONCAT('`', User, '`')), ';') FROM mysql.user WHERE Host = '';\n" +
		shows("package", "ROUTINE_TYPE", quotedName("ROUTINE_SCHEMA", "ROUTINE_NAME"), "ROUTINES WHERE ROUTINE_TYPE LIKE 'PACKAGE%'")
	if flavour == server.MySQL {
		stored = "' SELECT ''stored'', plugin, HEX(authentication_string), NULLIF(CAST(JSON_REMOVE(User_attributes, ''$.additional_password'') AS CHAR), ''{}'') FROM mysql.user WHERE User = ', QUOTE(User), ' AND Host = ', QUOTE(Host), ';'" +
			", ' SELECT ''" + second + "'', HEX(JSON_EXTRACT(User_attributes, ''$.additional_password'')) FROM mysql.user WHERE User = ', QUOTE(User), ' AND Host = ', QUOTE(Host), ';'"
		more = ""
	}
	return "SET SESSION group_concat_max_len = 10000000; SET SESSION sql_mode = ''; SET time_zone = '+00:00';\n" +
		shows("database", "'DATABASE'", quotedName("SCHEMA_NAME"), "SCHEMATA WHERE SCHEMA_NAME "+users) +
		shows("table", "'TABLE'", table, "TABLES WHERE TABLE_SCHEMA "+users) +
		shows("routine", "ROUTINE_TYPE", quotedName("ROUTINE_SCHEMA", "ROUTINE_NAME"), "ROUTINES WHERE ROUTINE_SCHEMA "+users+" AND ROUTINE_TYPE NOT LIKE 'PACKAGE%'") +
		shows("event", "'EVENT'", quotedName("EVENT_SCHEMA", "EVENT_NAME"), "EVENTS") + more +
		"SELECT CONCAT(" + begins("rows", table) + ", ' SELECT ''" + columnsMarker + "'', ', GROUP_CONCAT(QUOTE(HEX(q)) ORDER BY ORDINAL_POSITION SEPARATOR ','), '; SELECT ', GROUP_CONCAT(" + valueOf(flavour) +
		" ORDER BY ORDINAL_POSITION SEPARATOR ','), ' FROM ', " + table + ", IF(ANY_TYPE = 'SYSTEM VERSIONED', ' FOR SYSTEM_TIME ALL', ''), ';') FROM " +
		"(SELECT c.*, t.TABLE_TYPE AS ANY_TYPE, CONCAT('`', REPLACE(COLUMN_NAME, '`', '``'), '`') AS q FROM information_schema.COLUMNS c JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME) " +
		"WHERE TABLE_SCHEMA " + users + " AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND IFNULL(t.ENGINE, '') <> 'MEMORY') x GROUP BY TABLE_SCHEMA, TABLE_NAME, ANY_TYPE;\n" +
		"SELECT CONCAT(" + begins("words", "t") + ", " + strings.Join(searches, ", ") + ") FROM (SELECT " + table + " AS t, GROUP_CONCAT('`', COLUMN_NAME, '`' ORDER BY SEQ_IN_INDEX) AS cols FROM information_schema.STATISTICS " +
		"WHERE INDEX_TYPE = 'FULLTEXT' AND TABLE_SCHEMA " + users + " GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME) x;\n" +
		"SELECT CONCAT(" + begins("account", account) + ", ' SHOW CREATE USER ', " + account + ", '; SHOW GRANTS FOR ', " + account + ", ';', " + stored + ") " +
		"FROM mysql.user WHERE Host <> '' AND User NOT IN ('mysql', 'mariadb.sys') AND User NOT LIKE 'mysql.%';\n"
}

// second begins the line with the second password of an account.
const second = "second password"

// readZoo uses the client program to read everything that a server has, in two runs: first the names, then the content.
func readZoo(t *testing.T, s *rig.Server) reading {
	t.Helper()
	var answers strings.Builder
	answers.WriteString("SET SESSION sql_mode = ''; SET time_zone = '+00:00'; SET SESSION group_concat_max_len = 10000000;\n")
	if s.Flavour == server.MySQL {
		answers.WriteString("SET SESSION print_identified_with_as_hex = ON;\n")
	}
	answers.WriteString(client(t, s, questions(s.Flavour)))
	ask := func(object, query string) {
		fmt.Fprintf(&answers, "SELECT '%s%s %X'; %s;\n", marker, "all", object, query)
	}
	ask("triggers", "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_STATEMENT, ACTION_TIMING, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, "+
		"DATABASE_COLLATION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA <> 'sys'")
	ask("events", "SELECT EVENT_SCHEMA, EVENT_NAME, TIME_ZONE, STATUS, STARTS, EXECUTE_AT, DEFINER, SQL_MODE, EVENT_COMMENT FROM information_schema.EVENTS")
	ask("servers", "SELECT * FROM mysql.servers")
	ask("zones", "SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', 'Test/Eight'), @@system_time_zone")
	if s.Flavour == server.MySQL {
		ask("persisted variables", "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables")
		ask("resource groups", "SELECT * FROM information_schema.RESOURCE_GROUPS")
		ask("partitions", "SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE PARTITION_NAME IS NOT NULL")
	}
	for variable := range server.Variables {
		ask("variable "+variable, "SHOW GLOBAL VARIABLES LIKE '"+variable+"'")
	}
	found, object := reading{}, ""
	for line := range strings.Lines(client(t, s, answers.String())) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, marker); ok {
			kind, code, _ := strings.Cut(name, " ")
			text, err := hex.DecodeString(code)
			assert.NilError(t, err, line)
			object = kind + " " + string(text)
			found[object] = append(found[object], "")
			continue
		}
		found[object] = append(found[object], line)
	}
	return found
}

// client runs statements in the client program and returns its output.
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

// comparison compares two readings of an object.
type comparison struct {
	object    string
	got, want []string
	warnings  []string
	accepted  []string // differences that a warning names
}

// differ reports each difference between two readings, unless a warning names exactly the object that differs. It returns the accepted
// differences.
func differ(t *testing.T, got, want reading, warnings ...string) (accepted []string) {
	t.Helper()
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, object := range slices.Sorted(maps.Keys(all)) {
		c := &comparison{object: object, got: got[object], want: want[object], warnings: warnings}
		for _, accept := range []func(){c.acceptView, c.acceptDefinition, c.acceptColumns, c.acceptAccount, c.acceptWords} {
			accept()
		}
		accepted = append(accepted, c.accepted...)
		lost, added := difference(c.want, c.got), difference(c.got, c.want)
		for i, line := range lost {
			if i < 3 {
				t.Errorf("%s lacks a line (of %d): %.500s", object, len(lost), line)
			}
		}
		for i, line := range added {
			if i < 3 {
				t.Errorf("%s has an additional line (of %d): %.500s", object, len(added), line)
			}
		}
	}
	return accepted
}

// difference returns the lines of a that b lacks. Each line counts as often as it occurs.
func difference(a, b []string) (rest []string) {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

func (c *comparison) isSame() bool {
	return len(difference(c.got, c.want)) == 0 && len(difference(c.want, c.got)) == 0
}

// isNamed reports whether a warning that contains a text names exactly an object.
func (c *comparison) isNamed(object, text string) bool {
	return slices.ContainsFunc(c.warnings, func(warning string) bool {
		for _, end := range []string{",", " ", "\n"} { // a column has a dot in this place
			if strings.Contains(" "+warning+"\n", " "+object+end) && strings.Contains(warning, text) {
				return true
			}
		}
		return false
	})
}

// acceptView accepts that a broken view is missing.
func (c *comparison) acceptView() {
	if name, ok := strings.CutPrefix(c.object, "table "); ok && len(c.got) == 0 && len(c.want) > 0 && c.isNamed("view "+name, "broken") {
		c.accepted, c.got = append(c.accepted, c.object+" is broken"), c.want
	}
}

var (
	directoryClause = regexp.MustCompile(` DATA DIRECTORY='[^']*'`)
	counterClause   = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
)

// acceptDefinition accepts a table without its DATA DIRECTORY, and a MEMORY table with another AUTO_INCREMENT: the server empties it when it
// starts. A restore moves every table of the archive into its data folder (docs/backup.md), so a name with "late" needs no warning.
func (c *comparison) acceptDefinition() {
	name, ok := strings.CutPrefix(c.object, "table ")
	if !ok || c.isSame() {
		return
	}
	file := "/" + strings.NewReplacer("`.`", "/", "`", "").Replace(name) + ".ibd"
	isPlaced := strings.Contains(name, "late") || c.isNamed(name, "DATA DIRECTORY") || slices.ContainsFunc(c.warnings, func(w string) bool { return strings.Contains(w, file) && strings.Contains(w, "DATA DIRECTORY") })
	for i, line := range c.want {
		if isPlaced && directoryClause.MatchString(line) {
			c.want = slices.Clone(c.want)
			c.want[i] = directoryClause.ReplaceAllString(line, "")
			c.accepted = append(c.accepted, c.object+" is in the data folder")
		}
	}
	if !c.isSame() && c.isNamed(name, "(MEMORY)") {
		uncounted := func(lines []string) (rest []string) {
			for _, line := range lines {
				if strings.Contains(line, "ENGINE=MEMORY") {
					line = counterClause.ReplaceAllString(line, "")
				}
				rest = append(rest, line)
			}
			return rest
		}
		if c.got, c.want = uncounted(c.got), uncounted(c.want); c.isSame() {
			c.accepted = append(c.accepted, c.object+" has another AUTO_INCREMENT")
		}
	}
}

// acceptColumns removes the columns that differ and that warnings name from all rows of a table.
func (c *comparison) acceptColumns() {
	table, ok := strings.CutPrefix(c.object, "rows ")
	if !ok || c.isSame() || len(c.got) < 2 || len(c.want) < 2 || c.got[1] != c.want[1] {
		return
	}
	named := map[int]string{}
	for i, code := range strings.Split(c.want[1], "\t")[1:] {
		column, _ := hex.DecodeString(code) // the server computed it
		one := &comparison{got: fields(c.got[2:], i), want: fields(c.want[2:], i)}
		if name := table + "." + string(column); c.isNamed(name, "dumps") && !one.isSame() {
			named[i] = name
		}
	}
	lost := len(difference(c.want[2:], c.got[2:]))
	c.got, c.want = without(c.got, named), without(c.want, named)
	if c.isSame() {
		c.accepted = append(c.accepted, fmt.Sprintf("%s: %d of %d rows differ in %s", c.object, lost, len(c.want)-2, strings.Join(slices.Sorted(maps.Values(named)), ", ")))
	}
}

// fields returns the field i of each row.
func fields(rows []string, i int) (values []string) {
	for _, row := range rows {
		values = append(values, strings.Split(row, "\t")[i])
	}
	return values
}

// without returns the lines of a table with empty fields in some columns.
func without(lines []string, columns map[int]string) []string {
	rest := slices.Clone(lines[:2])
	for _, line := range lines[2:] {
		all := strings.Split(line, "\t")
		for i := range columns {
			all[i] = ""
		}
		rest = append(rest, strings.Join(all, "\t"))
	}
	return rest
}

// acceptAccount accepts that an account lacks its second password, and a right that the restored server refused.
func (c *comparison) acceptAccount() {
	name, ok := strings.CutPrefix(c.object, "account ")
	if !ok || c.isSame() {
		return
	}
	isLost := func(line string) bool {
		return strings.HasPrefix(line, second) && c.isNamed(name, "two passwords") ||
			strings.HasPrefix(line, "GRANT ") && slices.ContainsFunc(c.warnings, func(w string) bool { return strings.HasPrefix(w, "accounts: ") && strings.Contains(w, line) })
	}
	for _, line := range difference(c.want, c.got) {
		if isLost(line) {
			text, _, _ := strings.Cut(line, "\t")
			c.accepted = append(c.accepted, c.object+" lacks "+text)
			c.want = slices.DeleteFunc(slices.Clone(c.want), func(l string) bool { return l == line })
			c.got = slices.DeleteFunc(slices.Clone(c.got), func(l string) bool { return l == second+"\tNULL" && strings.HasPrefix(line, second) })
		}
	}
}

// acceptWords accepts that a full-text index finds words which were stopwords.
func (c *comparison) acceptWords() {
	table, ok := strings.CutPrefix(c.object, "words ")
	if ok && !c.isSame() && c.isNamed(table, "stopword") {
		c.accepted = append(c.accepted, fmt.Sprintf("%s: %q, were %q", c.object, difference(c.got, c.want), difference(c.want, c.got)))
		c.got = c.want
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"slices"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// mostNamed limits the number of tables or columns that a warning names, and with it the size of a manifest. A termination message shortens
// warnings further.
const mostNamed = 1000

// named returns a warning about the named objects, or nil if there are none.
func named(what string, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s (%d): %s", what, len(names), strings.Join(names[:min(len(names), mostNamed)], ", "))}
}

// warn adds a warning about the named objects. It adds nothing if names is empty.
func (e *extras) warn(what string, names []string) {
	e.warnings = append(e.warnings, named(what, names)...)
}

// column is a column of a base table, with the quoted name of the table.
type column struct{ table, name string }

// quoted returns the quoted names of columns, with their tables.
func quoted(columns []column) (names []string) {
	for _, c := range columns {
		names = append(names, c.table+"."+server.Quote(c.name))
	}
	return names
}

// candidate is a column of a base table that a dump may change, or that may hold stopwords.
type candidate struct {
	column
	kind, set string // data type and character set
	isFirst   bool   // in its table
}

// readColumns reads the candidates in one query, because servers open each table to read its columns. It removes the columns of views itself:
// a join in the server would compare each column with each table.
func (e *extras) readColumns() error {
	tables, err := e.conn.Tables()
	if err != nil {
		return err
	}
	isBase := map[string]bool{}
	for _, table := range tables {
		isBase[table.Quoted()] = true
	}
	e.sets = Lossy(e.conn.Version.Flavour)
	query := "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME, ORDINAL_POSITION FROM information_schema.COLUMNS WHERE DATA_TYPE IN ('float', 'json') " +
		"OR CHARACTER_SET_NAME IN ('" + strings.Join(e.sets, "', '") + "') OR COLUMN_NAME = 'value' ORDER BY 1, 2, 3"
	return e.each("columns", query, func(row []string) {
		if name := server.Quote(row[0]) + "." + server.Quote(row[1]); isBase[name] {
			e.candidates = append(e.candidates, candidate{column{name, row[2]}, strings.ToLower(row[3]), row[4], row[5] == "1"})
		}
	})
}

// columns returns the candidates that satisfy a condition, in the order of their tables.
func (e *extras) columns(is func(candidate) bool) (found []column) {
	for _, c := range e.candidates {
		if is(c) {
			found = append(found, c.column)
		}
	}
	return found
}

// isLossy reports whether a dump may change characters of a column.
func (e *extras) isLossy(c candidate) bool { return slices.Contains(e.sets, c.set) }

// floats warns of columns whose values the text of a dump rounds to six digits.
func (e *extras) floats() {
	found := e.columns(func(c candidate) bool { return c.kind == "float" })
	e.warn("dumps round FLOAT columns to six digits: use DOUBLE or DECIMAL", quoted(found))
}

// lossy are the character sets with characters that a conversion to utf8mb4 loses, on all servers.
var lossy = []string{"armscii8", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "sjis",
	"swe7", "tis620", "ujis"}

// Lossy returns the character sets with characters that a conversion to utf8mb4 loses. TestLossyCharacterSets computes the list. Only MariaDB
// stores bytes above 7F in ascii, and only MySQL stores half of a surrogate pair in ucs2.
func Lossy(flavour string) []string {
	if flavour == server.MariaDB {
		return append(slices.Clone(lossy), "ascii")
	}
	return append(slices.Clone(lossy), "ucs2")
}

// charsets warns of columns whose characters may change: dumps use utf8mb4.
func (e *extras) charsets() {
	e.warn("dumps are made in utf8mb4, which does not keep each character of the character set of these columns: convert them to utf8mb4", quoted(e.columns(e.isLossy)))
}

// json warns of columns whose values may have types that JSON text lacks. Finding the actual types would need a read of all rows.
func (e *extras) json() {
	found := e.columns(func(c candidate) bool { return c.kind == "json" })
	e.warn("dumps have JSON as text, in which a DATETIME, DATE, TIME, DECIMAL or BLOB inside a JSON value becomes a STRING or a DOUBLE", quoted(found))
}

// keys warns of tables whose keys depend on values that a dump may change. A restore fails if a dump makes two values of a unique key equal. A
// replay finds a row of a table without a safe key only by values that the dump may have changed, and then fails.
func (e *extras) keys() error {
	risky := e.columns(func(c candidate) bool { return c.kind == "float" || c.kind == "json" || e.isLossy(c) })
	if len(risky) == 0 {
		return nil
	}
	keys, err := e.uniqueKeys()
	if err != nil {
		return err
	}
	e.warn("a dump may make different values of these unique keys equal, and then a restore fails: use other types or utf8mb4, or copy files (method: Files)", keys.with(risky))
	if on, err := e.conn.Variable("log_bin"); err != nil || on != "ON" {
		return err // without a binary log there is no replay
	}
	tables := slices.DeleteFunc(tablesOf(risky), func(name string) bool { return keys.identify(name, risky) })
	e.warn("a replay of the archive fails at the first change of a row whose values the dump has changed, because these tables have no key that identifies a row: "+
		"give them a primary key, or copy files (method: Files)", tables)
	return nil
}

// tablesOf returns the quoted names of the tables of sorted columns.
func tablesOf(columns []column) (names []string) {
	for _, column := range columns {
		names = append(names, column.table)
	}
	return slices.Compact(names)
}

// uniqueKey is a unique key of a table.
type uniqueKey struct {
	columns []column
	// permitsNull reports whether a column of the key permits NULL. Such a key does not identify all rows.
	permitsNull bool
}

func (k uniqueKey) hasAny(columns []column) bool {
	return slices.ContainsFunc(k.columns, func(c column) bool { return slices.Contains(columns, c) })
}

// uniqueKeys holds the unique keys of all tables, by the quoted name of the table and the name of the key.
type uniqueKeys map[string]map[string]uniqueKey

func (e *extras) uniqueKeys() (uniqueKeys, error) {
	keys := uniqueKeys{}
	const query = "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0"
	err := e.each("keys", query, func(row []string) {
		table := server.Quote(row[0]) + "." + server.Quote(row[1])
		if keys[table] == nil {
			keys[table] = map[string]uniqueKey{}
		}
		key := keys[table][row[2]]
		keys[table][row[2]] = uniqueKey{append(key.columns, column{table, row[3]}), key.permitsNull || row[4] == "YES"}
	})
	return keys, err
}

// with returns the sorted quoted names of the keys with any of some columns.
func (k uniqueKeys) with(columns []column) (names []string) {
	for table, keys := range k {
		for name, key := range keys {
			if key.hasAny(columns) {
				names = append(names, table+"."+server.Quote(name))
			}
		}
	}
	slices.Sort(names)
	return names
}

// identify reports whether a replay finds the rows of a table by a key without risky columns. A replay uses the primary key if the table
// has one, and otherwise any unique key without NULL.
func (k uniqueKeys) identify(table string, risky []column) bool {
	if primary, ok := k[table]["PRIMARY"]; ok {
		return !primary.hasAny(risky)
	}
	isSafe := false
	for _, key := range k[table] {
		if !key.permitsNull && key.hasAny(risky) {
			return false
		}
		isSafe = isSafe || !key.permitsNull
	}
	return isSafe
}

// systemTables are the tables that servers of any version create in the schemas mysql and sys.
var systemTables = strings.Fields(`audit_log_filter audit_log_user column_stats columns_priv component db default_roles engine_cost event firewall_group_allowlist firewall_groups
	firewall_membership firewall_users firewall_whitelist func general_log global_grants global_priv gtid_executed gtid_slave_pos help_category help_keyword help_relation help_topic
	host index_stats innodb_index_stats innodb_table_stats masking_dictionaries ndb_binlog_index password_history plugin proc procs_priv proxies_priv
	replication_asynchronous_connection_failover replication_asynchronous_connection_failover_managed replication_group_configuration_version replication_group_member_actions
	role_edges roles_mapping server_cost servers slave_master_info slave_relay_log_info slave_worker_info slow_log sys_config table_stats tables_priv time_zone
	time_zone_leap_second time_zone_name time_zone_transition time_zone_transition_type transaction_registry user`)

// ofServers are the name prefixes of further tables that storage engines and plugins create in these schemas.
var ofServers = []string{"gtid_slave_pos_", "ndb_", "spider_", "wsrep_"}

// inSystemSchemas warns of tables and other objects that users created in the server's own schemas, which are not dumped.
func (e *extras) inSystemSchemas() error {
	var names []string
	err := e.each("the tables of schema mysql", "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('mysql', 'sys') AND TABLE_TYPE <> 'VIEW' ORDER BY 1, 2", func(row []string) {
		name := strings.ToLower(row[1])
		if !slices.Contains(systemTables, name) && !slices.ContainsFunc(ofServers, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, server.Quote(row[0])+"."+server.Quote(row[1]))
		}
	})
	e.warn("tables in schemas of the server are not in the backup: move them to another schema", names)
	if err != nil {
		return err
	}
	names = nil
	err = e.each("the views and programs of schema mysql", objectsInSystemSchemas, func(row []string) {
		definer := row[3][:max(strings.LastIndexByte(row[3], '@'), 0)]
		if !own[definer] && !slices.Contains(systemObjects, row[2]) {
			names = append(names, row[0]+" "+server.Quote(row[1])+"."+server.Quote(row[2]))
		}
	})
	e.warn("views, routines and events in schemas of the server are not in the backup: move them to another schema", names)
	return err
}

// objectsInSystemSchemas selects the users' objects in the schemas mysql and sys by their definer. The definer of the server's own objects
// is an account that the server creates.
const objectsInSystemSchemas = "SELECT 'view', TABLE_SCHEMA, TABLE_NAME, DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA IN ('mysql', 'sys') " +
	"UNION ALL SELECT LOWER(ROUTINE_TYPE), ROUTINE_SCHEMA, ROUTINE_NAME, DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA IN ('mysql', 'sys') " +
	"UNION ALL SELECT 'event', EVENT_SCHEMA, EVENT_NAME, DEFINER FROM information_schema.EVENTS WHERE EVENT_SCHEMA IN ('mysql', 'sys') ORDER BY 1, 2, 3"

// systemObjects are objects that MariaDB itself creates in these schemas. Before 10.6, their definer is root.
var systemObjects = []string{"AddGeometryColumn", "DropGeometryColumn", "user"}

// stopwords warns of tables whose full-text indexes a restore builds before it loads the database's stopwords. An index keeps the stopword
// table of the session that created it, but no account without rights to change variables can read which. If a table can be such a stopword
// table, stopwords warns of all tables with full-text indexes.
func (e *extras) stopwords() error {
	table, err := e.conn.Variable("innodb_ft_server_stopword_table")
	if err != nil {
		return err
	}
	var names []string
	err = e.each("full-text indexes", "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_TYPE = 'FULLTEXT' ORDER BY 1, 2", func(row []string) {
		if !e.conn.Omits(row[0]) {
			names = append(names, server.Quote(row[0])+"."+server.Quote(row[1]))
		}
	})
	if table != "" && !strings.EqualFold(table, "NULL") {
		e.warn("a restore builds full-text indexes without the stopwords of innodb_ft_server_stopword_table ("+table+"): drop and add the indexes afterwards", names)
		return err
	}
	if err != nil || len(names) == 0 {
		return err
	}
	words := e.columns(func(c candidate) bool { return c.isFirst && c.name == "value" && c.kind == "varchar" })
	if len(words) > 0 {
		e.warn("tables may hold stopwords of a session's innodb_ft_user_stopword_table ("+strings.Join(quoted(words), ", ")+"), and a restore builds full-text indexes without them: "+
			"drop and add the indexes that were built with them afterwards", names)
	}
	return err
}

// resourceGroups saves the resource groups that users created. The server shows groups only to accounts with a right on them.
func (e *extras) resourceGroups() error {
	isSeen := false
	err := e.each("resource groups", "SELECT RESOURCE_GROUP_NAME, RESOURCE_GROUP_TYPE, RESOURCE_GROUP_ENABLED, CAST(VCPU_IDS AS CHAR), THREAD_PRIORITY FROM information_schema.RESOURCE_GROUPS "+
		"ORDER BY 1", func(row []string) {
		if isSeen = true; row[0] == "USR_default" || row[0] == "SYS_default" {
			return
		}
		statement := fmt.Sprintf("CREATE RESOURCE GROUP %s TYPE = %s VCPU = %s THREAD_PRIORITY = %s", server.Quote(row[0]), row[1], row[3], row[4])
		if row[2] != "1" {
			statement += " DISABLE"
		}
		e.add("resource group "+server.Quote(row[0]), statement)
	})
	if err == nil && !isSeen {
		e.warnings = append(e.warnings, "resource groups are not in the backup, if the server has any: grant RESOURCE_GROUP_USER to the account of the backup")
	}
	return err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"slices"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// mostNamed limits the number of tables or columns that a warning names. The warning also states their total number.
const mostNamed = 10

// warn adds a warning about the named objects. It adds nothing if names is empty.
func (e *extras) warn(what string, names []string) {
	if len(names) > 0 {
		e.warnings = append(e.warnings, fmt.Sprintf("%s (%d): %s", what, len(names), strings.Join(names[:min(len(names), mostNamed)], ", ")))
	}
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

// columns returns the columns of base tables that satisfy a condition on information_schema.COLUMNS. It removes the
// columns of views itself: a join in the server would compare each column with each table.
func (e *extras) columns(condition string) (found []column, err error) {
	tables, err := e.conn.Tables()
	if err != nil {
		return nil, err
	}
	isBase := map[string]bool{}
	for _, table := range tables {
		isBase[table.Quoted()] = true
	}
	err = e.each("columns", "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE "+condition+" ORDER BY 1, 2, 3", func(row []string) {
		if name := server.Quote(row[0]) + "." + server.Quote(row[1]); isBase[name] {
			found = append(found, column{name, row[2]})
		}
	})
	return found, err
}

// floats warns of columns whose values the text of a dump rounds to six digits.
func (e *extras) floats() error {
	found, err := e.columns("DATA_TYPE = 'float'")
	e.warn("dumps round FLOAT columns to six digits: use DOUBLE or DECIMAL", quoted(found))
	return err
}

// Lossy are the character sets with characters that a conversion to utf8mb4 loses. TestLossyCharacterSets computes the list. It ignores
// ascii, binary, ucs2 and utf32, because the server rejects their invalid bytes.
var Lossy = []string{"armscii8", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp932", "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "sjis",
	"swe7", "tis620", "ujis"}

// charsets warns of columns whose characters may change: dumps use utf8mb4.
func (e *extras) charsets() error {
	found, err := e.columns("CHARACTER_SET_NAME IN ('" + strings.Join(Lossy, "', '") + "')")
	e.warn("dumps are made in utf8mb4, which does not keep each character of the character set of these columns: convert them to utf8mb4", quoted(found))
	return err
}

// json warns of columns whose values may have types that JSON text lacks. Finding the actual types would need a read of all rows.
func (e *extras) json() error {
	found, err := e.columns("DATA_TYPE = 'json'")
	e.warn("dumps have JSON as text, in which a DATETIME, DATE, TIME, DECIMAL or BLOB inside a JSON value becomes a STRING or a DOUBLE", quoted(found))
	return err
}

// unreplayable warns of tables without a key in columns whose values a dump may change. A replay finds a row of such a table only by the values
// of all columns, and fails if the dump has changed one of them.
func (e *extras) unreplayable() error {
	if on, err := e.conn.Variable("log_bin"); err != nil || on != "ON" {
		return err // without a binary log there is no replay
	}
	tables, err := e.changed("DATA_TYPE IN ('float', 'json') OR CHARACTER_SET_NAME IN ('" + strings.Join(Lossy, "', '") + "')")
	if err != nil {
		return err
	}
	keyed := map[string]bool{}
	err = e.each("keys", "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME "+
		"HAVING SUM(NULLABLE = 'YES') = 0", func(row []string) { keyed[server.Quote(row[0])+"."+server.Quote(row[1])] = true })
	tables = slices.DeleteFunc(tables, func(name string) bool { return keyed[name] })
	e.warn("a replay of the archive fails at the first change of a row whose values the dump has changed, because these tables have no key that identifies a row: "+
		"give them a primary key, or copy files (method: Files)", tables)
	return err
}

// changed returns the quoted names of base tables with a column that satisfies a condition on information_schema.COLUMNS.
func (e *extras) changed(condition string) (names []string, err error) {
	columns, err := e.columns(condition)
	for _, column := range columns {
		names = append(names, column.table)
	}
	return slices.Compact(names), err
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

// stopwords warns of tables whose full-text indexes a restore builds before it loads the database's stopwords.
func (e *extras) stopwords() error {
	table, err := e.conn.Variable("innodb_ft_server_stopword_table")
	if err != nil || table == "" || strings.EqualFold(table, "NULL") {
		return err
	}
	var names []string
	err = e.each("full-text indexes", "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_TYPE = 'FULLTEXT' ORDER BY 1, 2", func(row []string) {
		if !e.conn.Omits(row[0]) {
			names = append(names, server.Quote(row[0])+"."+server.Quote(row[1]))
		}
	})
	e.warn("a restore builds full-text indexes without the stopwords of innodb_ft_server_stopword_table ("+table+"): drop and add the indexes afterwards", names)
	return err
}

// secondPasswords warns of accounts with a second password (RETAIN CURRENT PASSWORD), which SHOW CREATE USER omits.
func (e *extras) secondPasswords() error {
	var names []string
	err := e.each("second passwords of accounts", "SELECT User, Host FROM mysql.user WHERE JSON_CONTAINS_PATH(User_attributes, 'one', '$.additional_password') ORDER BY 1, 2", func(row []string) {
		names = append(names, account{name: row[0], host: row[1]}.String())
	})
	e.warn("the former passwords of accounts with two passwords are not in the backup: ALTER USER … DISCARD OLD PASSWORD when no client uses them", names)
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

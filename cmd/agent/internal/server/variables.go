// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"strings"
)

// Use selects the way in which a restore handles a variable of the backup's server.
type Use byte

const (
	// Compared causes a warning if the values differ. The data does not depend on the variable, but clients may.
	Compared Use = iota
	// Needed refuses a restore unless the server's configuration has the same value.
	Needed
	// Given passes the backup's value to the restoring server, because the effect of the dump and the archive depends on it.
	Given
)

// TimeZone is the name of a variable that the restoring server gets only after its time zone tables are filled.
const TimeZone = "time_zone"

// PageSize is the name of a variable. A server with a smaller page size may refuse rows.
const PageSize = "innodb_page_size"

// Variables lists the global variables that affect how a server stores, compares, reads or indexes data. A backup's manifest contains
// each of them that the server has.
var Variables = map[string]Use{
	"lower_case_table_names": Needed, PageSize: Compared,
	// Variables that affect the objects that a statement creates.
	"character_set_server": Given, "collation_server": Given, "character_set_collations": Given, "default_storage_engine": Given, "explicit_defaults_for_timestamp": Given,
	"innodb_default_row_format": Given, "innodb_file_per_table": Given, "innodb_strict_mode": Given, "innodb_large_prefix": Given, "innodb_file_format": Given,
	"innodb_compression_algorithm": Given, "mysql56_temporal_format": Given, "old_mode": Given, "partial_revokes": Given, "max_heap_table_size": Given,
	"system_versioning_alter_history": Given, "innodb_default_encryption_key_id": Given,
	// Variables that affect the values of generated columns, views and routines.
	"block_encryption_mode": Given, "default_week_format": Given, "div_precision_increment": Given, "lc_time_names": Given, "max_sort_length": Given, TimeZone: Given,
	// The restoring server builds full-text indexes with the configuration of the server that will use the data.
	"ft_max_word_len": Compared, "ft_min_word_len": Compared, "ft_stopword_file": Compared, "innodb_ft_enable_stopword": Compared, "innodb_ft_max_token_size": Compared,
	"innodb_ft_min_token_size": Compared, "innodb_ft_server_stopword_table": Compared, "ngram_token_size": Compared,
	// Variables that affect the results that clients get.
	"activate_all_roles_on_login": Compared, "auto_increment_increment": Compared, "auto_increment_offset": Compared, "event_scheduler": Compared, "group_concat_max_len": Compared,
	"mandatory_roles": Compared, "max_allowed_packet": Compared, "sql_generate_invisible_primary_key": Compared, "sql_mode": Compared, "sql_require_primary_key": Compared,
	"transaction_isolation": Compared, "tx_isolation": Compared, "updatable_views_with_limit": Compared,
	"default_table_encryption": Compared, "innodb_encrypt_tables": Compared,
}

// Settings returns the values of Variables on this server.
func (c *Conn) Settings() (map[string]string, error) {
	rows, err := c.Rows("SHOW GLOBAL VARIABLES")
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, row := range rows {
		if _, ok := Variables[row[0]]; ok {
			settings[row[0]] = row[1]
		}
	}
	return settings, nil
}

// SameSetting reports whether two texts are the same value of a variable. The server formats some values differently in query results and
// in the list of its options.
func SameSetting(a, b string) bool { return plain(a) == plain(b) }

func plain(value string) string {
	value = strings.ToUpper(value)
	switch value {
	case "TRUE", "YES", "1":
		return "ON"
	case "FALSE", "NO", "0":
		return "OFF"
	case "(NO DEFAULT VALUE)", "(BUILT-IN)", "SYSTEM":
		return ""
	}
	value = strings.TrimSuffix(strings.ReplaceAll(value, "UTF8MB3", "UTF8"), ";")
	if strings.Contains(value, ",") {
		parts := strings.Split(value, ",")
		slices.Sort(parts)
		value = strings.Join(parts, ",")
	}
	return value
}

// zoneYears are the first and the last year that ZoneOffsets covers.
var zoneYears = [2]int{1970, 2037}

// ZoneMoments returns the times at which time zones are compared, in seconds since 1970: one near the beginning of each month.
func ZoneMoments() []int64 {
	var moments []int64
	for year := zoneYears[0]; year <= zoneYears[1]; year++ {
		for month := range 12 {
			moments = append(moments, int64((year-1970)*31556952+month*2629746+86400))
		}
	}
	return moments
}

// ZoneOffsets lists the offsets of a time zone from UTC at ZoneMoments. The list contains each time at which the offset changes, with the
// new offset: "86400:28800".
func ZoneOffsets(at func(moment int64) int64) string {
	var text []string
	last := int64(-1 << 62)
	for _, moment := range ZoneMoments() {
		if offset := at(moment); offset != last {
			text = append(text, fmt.Sprintf("%d:%d", moment, offset))
			last = offset
		}
	}
	return strings.Join(text, " ")
}

// SystemZone returns the name and the offsets of the time zone of the server's process.
func (c *Conn) SystemZone() (name, offsets string, err error) {
	if name, err = c.Variable("system_time_zone"); err != nil {
		return "", "", err
	}
	own, err := c.Value("SELECT @@SESSION.time_zone")
	if err != nil {
		return "", "", err
	}
	if err := c.Do("SET SESSION time_zone = 'SYSTEM'"); err != nil {
		return "", "", err
	}
	moments := ZoneMoments()
	columns := make([]string, len(moments))
	for i, moment := range moments {
		columns[i] = fmt.Sprintf("TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', FROM_UNIXTIME(%d)) - %d", moment, moment)
	}
	rows, err := c.Rows("SELECT " + strings.Join(columns, ", "))
	if err != nil || len(rows) == 0 {
		return "", "", err
	}
	found := map[int64]int64{}
	for i, moment := range moments {
		var offset int64
		if _, err := fmt.Sscan(rows[0][i], &offset); err != nil {
			return "", "", fmt.Errorf("read the server's time zone: %w", err)
		}
		found[moment] = offset
	}
	return name, ZoneOffsets(func(moment int64) int64 { return found[moment] }), c.Do("SET SESSION time_zone = " + Literal(own))
}

// Literal returns a text as an SQL string for the empty SQL mode.
func Literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
)

// queryEvent returns an event of MySQL with a checksum.
func queryEvent(mode uint64, collation uint16, text string) []byte {
	variables := append([]byte{0, 0, 0, 0, 0, 1}, binary.LittleEndian.AppendUint64(nil, mode)...)
	variables = append(variables, 6, 3, 's', 't', 'd', 4)
	variables = append(binary.LittleEndian.AppendUint16(variables, collation), 45, 0, 255, 0, 12, 1, 'a', 0)
	body := append(make([]byte, 8), 1, 0, 0)
	body = binary.LittleEndian.AppendUint16(body, uint16(len(variables)))
	raw := append(make([]byte, 19), body...)
	raw[4] = 2
	raw = append(append(append(raw, variables...), 'a', 0), text...)
	binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)+4))
	return binary.LittleEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
}

// The clauses DATA DIRECTORY and INDEX DIRECTORY are removed from definitions of tables, in any notation. The same
// words in routines, comments and values stay. In the cases, ‹ and › enclose the removed text.
func TestTablesLoseTheirOtherFolder(t *testing.T) {
	t.Parallel()
	const utf8, gbk, sjis = 255, 28, 13
	for _, c := range []struct {
		text      string
		mode      uint64
		collation uint16
	}{
		{text: "CREATE TABLE t (id INT)‹ DATA DIRECTORY='/x'›"},
		{text: "create temporary table if not exists a.t (id int) engine=innodb‹ data directory '/x'› comment 'y'"},
		{text: "CREATE TABLE t (id INT)‹ DATA DIRECTORY = \"/it\\\"s''\"›‹ INDEX\n\tDIRECTORY='/y'›"},
		{text: "CREATE TABLE t (id INT)‹ DATA DIRECTORY='/x',› ENGINE=MyISAM"},
		{text: "CREATE TABLE t (id INT) ENGINE=MyISAM, COMMENT='a'‹, DATA DIRECTORY='/x'›"},
		{text: "CREATE TABLE t (id INT) ENGINE=MyISAM‹,›‹ DATA DIRECTORY='/x',›‹ INDEX DIRECTORY='/x'› PARTITION BY HASH (id)"},
		{text: "CREATE TABLE t (id INT) ENGINE=MyISAM,‹ DATA DIRECTORY='/x',›‹ INDEX DIRECTORY='/x',› COMMENT='b'"},
		{text: "CREATE TABLE `s` (\n  `a` text\n) START TRANSACTION‹ DATA DIRECTORY='/x/'›"},
		{text: "CREATE TABLE t‹ DATA DIRECTORY='/x'› SELECT data directory, index_ FROM u"},
		{text: "CREATE TABLE t (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1)‹ DATA DIRECTORY='/x'›, PARTITION q VALUES LESS THAN (2) ENGINE=InnoDB‹ INDEX DIRECTORY='/x'›)"},
		{text: "CREATE TABLE t (id INT) /*!50100 PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1)‹ DATA DIRECTORY = '/x'› ENGINE = InnoDB) */"},
		{text: "CREATE TABLE t (id INT)‹ DATA› /*!50100‹ DIRECTORY='/x'› */ # DATA DIRECTORY='/y'\n"},
		{text: "ALTER TABLE t ADD PARTITION (PARTITION p VALUES IN (1)‹ DATA DIRECTORY '/x'›, PARTITION q VALUES IN (2) (SUBPARTITION s‹ DATA DIRECTORY='/x'›))"},
		{text: "ALTER TABLE t ENGINE=InnoDB DATA DIRECTORY='/x', ADD COLUMN c INT"}, // the server ignores the clause
		{text: "CREATE TABLE t (data INT, `data` INT, INDEX directory (data), c VARCHAR(40) DEFAULT 'DATA DIRECTORY=''/x''' COMMENT ' DATA DIRECTORY=\\'/x\\'')"},
		{text: "CREATE TABLE t (id INT /* DATA DIRECTORY='/x' */ DEFAULT 1--1)‹ DATA DIRECTORY='/x'› -- DATA DIRECTORY='/x'"},
		{text: "/*My table's*/ CREATE TABLE t (id INT)‹ DATA DIRECTORY='/x'›"},
		{text: "CREATE DEFINER=`a`@`%` PROCEDURE p() CREATE TABLE t (id INT) DATA DIRECTORY='/x'"},
		{text: "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE TABLE t (id INT) DATA DIRECTORY='/x'"},
		{text: "INSERT INTO t VALUES ('CREATE TABLE t (id INT) DATA DIRECTORY=''/x''')"},
		{text: "CREATE TABLE t (c VARCHAR(9) DEFAULT 'a\\')‹ DATA DIRECTORY='/\\'›", mode: binlog.ModeNoBackslashEscapes},
		{text: "CREATE TABLE t (\"a\\\" INT)‹ DATA DIRECTORY='/x\\''›", mode: binlog.ModeAnsiQuotes},
		{text: "CREATE TABLE t (`\x81`` INT, c INT DEFAULT '\x95\x5c')‹ DATA DIRECTORY='/\x95\x5c'›", collation: gbk},
		{text: "CREATE TABLE t (\x83\x60 INT, c CHAR DEFAULT '\xb1\\'')‹ DATA DIRECTORY='/\x83\x5c'›", collation: sjis},
		{text: "CREATE TABLE `ä` (c CHAR DEFAULT 'ä\\'')‹ DATA DIRECTORY='/ä'›", collation: utf8},
		{text: "CREATE TABLE t (id INT) DATA DIRECTORY"}, {text: ""}, {text: "CREATE"}, {text: "CREATE TABLE t (c CHAR DEFAULT 'DIRECTORY"},
	} {
		given := strings.NewReplacer("‹", "", "›", "").Replace(c.text)
		want, removed := "", false
		for i := 0; i < len(c.text); i++ {
			switch rest := c.text[i:]; {
			case strings.HasPrefix(rest, "‹"), strings.HasPrefix(rest, "›"):
				removed, i = strings.HasPrefix(rest, "‹"), i+len("‹")-1
			case removed && !strings.ContainsRune("\n\t", rune(c.text[i])):
				want += " "
			default:
				want += c.text[i : i+1]
			}
		}
		raw, expected := queryEvent(c.mode, c.collation, given), queryEvent(c.mode, c.collation, want)
		inDataFolder(raw, true)
		assert.Equal(t, string(raw), string(expected), c.text)
	}
	rows := append([]byte{0, 0, 0, 0, 30}, []byte(strings.Repeat("CREATE TABLE t (id INT) DATA DIRECTORY='/x'", 2))...)
	same := string(rows)
	inDataFolder(rows, true)
	assert.Equal(t, string(rows), same)
}

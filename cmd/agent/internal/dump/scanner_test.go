// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"reflect"
	"strings"
	"testing"
)

var sample = "/*M!999999\\- enable the sandbox mode */\n" +
	"-- CHANGE MASTER TO MASTER_LOG_FILE='binlog.000002', MASTER_LOG_POS=1234;\n" +
	"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `a``b`;\n\nUSE `a``b`;\n" +
	"CREATE TABLE `t VALUES (` (\n  `id` int,\n  PRIMARY KEY (`id`)\n) COMMENT='(';\n" +
	"INSERT INTO `t VALUES (` VALUES (1,'a;)(\\'\\\\'),(2,'it''s'),\n(3,0x28);\n" +
	"INSERT INTO `t VALUES (` (`x VALUES`, `y`) VALUES\n(4,'\n-- no line'),\n(5,NULL);\n" +
	"CREATE TABLE `br\n``INSERT INTO ``x`` VALUES (` (\n  `a\nINSERT INTO ``y`` VALUES (1);` int DEFAULT 'it\\'s'\n);\n" +
	"INSERT INTO `br\n``INSERT INTO ``x`` VALUES (` (" + strings.Repeat("`a long name of a column VALUES`, ", 1200) + "`b`) VALUES (1),(2);\n" +
	"-- it's\nINSERT INTO `back``` VALUES (1);\n" +
	"CREATE TABLE `empty` (\n  `id` int\n);\n" +
	"DELIMITER ;;\nCREATE PROCEDURE p() BEGIN\nINSERT INTO `t` VALUES (1);\nEND ;;\nDELIMITER ;\n" +
	"-- Dump completed\n"

// The scanner's result does not depend on the sizes of the parts in which a dump arrives.
func TestScanner(t *testing.T) {
	want := map[string]int64{"`a``b`.`t VALUES (`": 5, "`a``b`.`empty`": 0, "`a``b`.`br\n``INSERT INTO ``x`` VALUES (`": 2, "`a``b`.`back```": 1}
	for size := 1; size <= len(sample); size += 1 + size/100 {
		s := NewScanner()
		for rest := []byte(sample); len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if !reflect.DeepEqual(s.Rows, want) || !s.Complete || s.Position == nil || s.Position.File != "binlog.000002" || s.Position.Offset != 1234 {
			t.Fatalf("in parts of %d bytes: %v %v %v", size, s.Rows, s.Complete, s.Position)
		}
	}
}

// TooLong names the table of an INSERT statement that is longer than the limit, regardless of how the dump is divided into writes. The
// limit applies to each statement, not to the sum of a table's statements.
func TestScannerFindsALongRow(t *testing.T) {
	for text, want := range map[string]string{
		"USE `a`;\n" + strings.Repeat("INSERT INTO `short` VALUES (1,'"+strings.Repeat("x", 900)+"');\n", 20):                                        "",
		"USE `a`;\nINSERT INTO `short` VALUES (1);\nINSERT INTO `long` VALUES (0x" + strings.Repeat("41", 500) + ");\nINSERT INTO `t` VALUES (1);\n": "`a`.`long`",
		"USE `a`;\nINSERT INTO `rows` VALUES (1)" + strings.Repeat(",(1)", 250) + ";\n":                                                              "`a`.`rows`",
	} {
		for _, size := range []int{1, 7, 100, len(text)} {
			s := NewScanner()
			s.limit = 1000
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = s.Write(rest[:n])
				rest = rest[n:]
			}
			if s.TooLong != want {
				t.Errorf("in parts of %d bytes: %q, want %q", size, s.TooLong, want)
			}
		}
	}
}

// A dump that was truncated at any byte is not complete.
func TestScannerOfPart(t *testing.T) {
	for size := 0; size < len(sample)-2; size += 1 + min(200, (len(sample)-size)/100) {
		s := NewScanner()
		_, _ = s.Write([]byte(sample[:size]))
		if s.Complete {
			t.Fatalf("a dump of %d of %d bytes counts as complete", size, len(sample))
		}
	}
}

func BenchmarkScanner(b *testing.B) {
	line := []byte("(1234567,'some text of a usual length, with it\\'s quotes','2026-11-22 05:00:00',0.5,NULL),")
	block := []byte("USE `a`;\nINSERT INTO `t` VALUES ")
	for len(block) < 1<<20 {
		block = append(block, line...)
	}
	block = append(block, "(1);\n"...)
	b.SetBytes(int64(len(block)))
	s := NewScanner()
	for b.Loop() {
		_, _ = s.Write(block)
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump runs the dump program of the image and parses the program's output as a stream.
package dump

import (
	"bytes"
	"regexp"
	"strconv"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Scanner parses a dump as a stream. It finds the tables and their numbers of rows, the position in the binary log, and
// the mark at the end of a complete dump. mysqldump writes one statement or one row per line. Quoted text has no line
// breaks.
type Scanner struct {
	// Rows maps the quoted name of each table to its number of rows.
	Rows map[string]int64
	// Position is the position of the dump; nil if the dump names none.
	Position *contract.Position
	// Complete reports whether the last line marks the end of the dump.
	Complete bool

	// TooLong is the quoted name of a table with a row whose INSERT is longer than servers accept; "" for none.
	TooLong string
	// LacksHistory reports that a table has former versions of rows, but the program cannot dump them.
	LacksHistory bool

	limit     int64 // maximum length of an INSERT
	length    int64 // length of the current INSERT
	schema    string
	table     string // table of the current INSERT
	rows      int64
	inInsert  bool
	quotes    server.Quotes // finds quoted text in statements
	quote     byte          // the quote of the present string in a row; 0 outside of strings
	escaped   bool          // the next byte of the string is escaped
	depth     int
	delimiter bool   // within the body of a routine or trigger
	line      []byte // the start of an incomplete line
	comment   bool   // the present line is a comment
	inColumns bool   // between the table's name and the rows of an INSERT
	listed    bool   // text follows the table's name
	match     int    // number of bytes of VALUES that have matched
}

// NewScanner returns a Scanner.
func NewScanner() *Scanner { return &Scanner{Rows: map[string]int64{}, limit: longestStatement} }

// longestStatement is the length of a statement that every server accepts: max_allowed_packet is at most 1 GiB, and a packet is longer than
// its statement.
const longestStatement = 1<<30 - 1<<20

// longest limits the parsed part of a line that is not data. (Names have at most 64 characters.)
const longest = 2048

// Write reads a part of the dump. It never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		switch {
		case s.inInsert:
			rest := s.data(p)
			if s.length += int64(len(p) - len(rest)); s.length > s.limit {
				s.TooLong = s.table
			}
			p = rest
		case s.inColumns:
			p = s.columns(p)
		default:
			p = s.text(p)
		}
	}
	return n, nil
}

// text parses everything except data, up to the end of a line or the start of data. A name or a text that contains a line break continues
// on the next line.
func (s *Scanner) text(p []byte) []byte {
	for i, c := range p {
		if c == '\n' && s.quotes.IsOutside() {
			s.endLine(s.line)
			s.line, s.comment = s.line[:0], false
			return p[i+1:]
		}
		if len(s.line) < longest {
			s.line = append(s.line, c)
		}
		if s.delimiter {
			continue
		}
		if len(s.line) == 2 && s.quotes.IsOutside() && string(s.line) == "--" {
			s.comment = true
		}
		if s.comment {
			continue
		}
		closed := s.quotes.Take(c)
		if closed && c == '`' && bytes.HasPrefix(s.line, insert) && len(s.line) < longest {
			s.inColumns, s.match = true, 0
			return p[i+1:]
		}
	}
	return nil
}

var (
	insert     = []byte("INSERT INTO `")
	valuesWord = []byte(" VALUES")
)

// columns parses the part of an INSERT between the table's name and the rows: VALUES, or a list of columns of any length followed by
// VALUES. If a second quote follows the name's closing quote, the name continues.
func (s *Scanner) columns(p []byte) []byte {
	for i, c := range p {
		if s.match == 0 && s.quotes.IsOutside() && c == '`' && s.line[len(s.line)-1] == '`' && !s.listed {
			s.line = append(s.line, c)
			s.quotes.Take(c)
			s.inColumns = false
			return p[i+1:] // the name continues
		}
		s.listed = true
		if s.quotes.Take(c); !s.quotes.IsOutside() {
			s.match = 0
			continue
		}
		switch c {
		case valuesWord[s.match]:
			s.match++
		case valuesWord[0]:
			s.match = 1
		default:
			s.match = 0
		}
		if s.match == len(valuesWord) {
			name, _ := unquote(s.line[len(insert):])
			s.begin(name)
			return p[i+1:]
		}
	}
	return nil
}

// begin starts counting the rows of a table.
func (s *Scanner) begin(name string) {
	s.table, s.rows, s.inInsert, s.quote, s.depth, s.escaped = s.schema+"."+name, 0, true, 0, 0, false
	s.inColumns, s.listed = false, false
	s.length = int64(len(s.line))
	s.line = s.line[:0]
}

// unquote returns a quoted name with its quotes. b begins after the opening quote.
func unquote(b []byte) (string, bool) {
	for i := 0; i < len(b); i++ {
		if b[i] != '`' {
			continue
		}
		if i+1 < len(b) && b[i+1] == '`' {
			i++
			continue
		}
		return "`" + string(b[:i+1]), true
	}
	return "", false
}

// data parses rows, up to the end of the statement.
func (s *Scanner) data(p []byte) []byte {
	for i := 0; i < len(p); i++ {
		if s.quote != 0 {
			i += s.inString(p[i:])
			continue
		}
		switch p[i] {
		case '\'', '"':
			s.quote = p[i]
		case '(':
			s.depth++
		case ')':
			if s.depth--; s.depth == 0 {
				s.rows++
			}
		case ';':
			if s.depth == 0 {
				s.Rows[s.table] += s.rows
				s.inInsert = false
				return p[i+1:]
			}
		}
	}
	return nil
}

// inString parses a string up to its next quote or backslash. It returns the index of the last parsed byte.
func (s *Scanner) inString(p []byte) int {
	if s.escaped {
		s.escaped = false
		return 0
	}
	for i, c := range p {
		if c == '\\' {
			if i+1 == len(p) {
				s.escaped = true
				return i
			}
			return i + 1
		}
		if c == s.quote {
			s.quote = 0 // a doubled quote ends a string and begins the next
			return i
		}
	}
	return len(p) - 1
}

var (
	position  = regexp.MustCompile(`^(?:-- )?CHANGE (?:MASTER|REPLICATION SOURCE) TO (?:MASTER|SOURCE)_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+);`)
	use       = []byte("USE `")
	create    = []byte("CREATE TABLE `")
	delimiter = []byte("DELIMITER ")
	completed = []byte("-- Dump completed")
)

func (s *Scanner) endLine(line []byte) {
	if len(line) > 0 && s.Complete {
		s.Complete = bytes.HasPrefix(line, []byte("--")) || bytes.HasPrefix(line, []byte("/*"))
	}
	if bytes.HasPrefix(line, delimiter) {
		s.delimiter = !bytes.Equal(line, []byte("DELIMITER ;"))
		return
	}
	if s.delimiter || len(line) == 0 {
		return
	}
	switch {
	case bytes.HasPrefix(line, completed):
		s.Complete = true
	case bytes.HasPrefix(line, use):
		s.schema, _ = unquote(line[len(use):])
	case bytes.HasPrefix(line, create):
		if name, ok := unquote(line[len(create):]); ok {
			s.Rows[s.schema+"."+name] += 0
		}
	case s.Position == nil:
		if found := position.FindSubmatch(line); found != nil {
			offset, _ := strconv.ParseUint(string(found[2]), 10, 64) // digits, by the pattern
			s.Position = &contract.Position{File: string(found[1]), Offset: offset}
		}
	}
}

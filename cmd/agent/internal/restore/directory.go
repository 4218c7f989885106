// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
)

// inDataFolder changes an event of MySQL so that the server creates tables and partitions in the data folder. It does
// not use the SQL mode NO_DIR_IN_CREATE: the server would store this mode in the routines, triggers and events of the
// log.
func inDataFolder(raw []byte, hasChecksum bool) {
	q, ok := binlog.QueryOf(raw, hasChecksum)
	if ok && withoutDirectories(q) && hasChecksum {
		binlog.Sign(raw)
	}
}

// withoutDirectories overwrites the clauses DATA DIRECTORY and INDEX DIRECTORY of CREATE TABLE and ALTER TABLE with
// spaces. It reports whether it found one. The length of the statement does not change, so the offsets of later events
// stay valid.
func withoutDirectories(q binlog.Query) bool {
	if !bytes.Contains(bytes.ToUpper(q.Text), []byte("DIRECTORY")) {
		return false
	}
	tokens := tokensOf(q)
	alters, ok := definesTable(tokens)
	if !ok {
		return false
	}
	depth, found := 0, false
	var comma []token // the comma directly before token i
	for i := 0; i < len(tokens); {
		n := directory(tokens[i:])
		if n == 0 {
			depth += map[string]int{"(": 1, ")": -1}[tokens[i].word]
			if comma = nil; tokens[i].word == "," {
				comma = tokens[i : i+1]
			}
			i++
			continue
		}
		clause := tokens[i : i+n]
		i += n
		switch {
		case depth > 0: // the options of a partition are not separated by commas
			blank(q.Text, clause)
		case alters: // in ALTER TABLE, the server ignores this clause
			continue
		case i < len(tokens) && tokens[i].word == ",": // commas between the options of a table may be omitted
			i++
			blank(q.Text, tokens[i-n-1:i])
		default:
			blank(q.Text, clause)
			blank(q.Text, comma)
			comma = nil
		}
		found = true
	}
	return found
}

func blank(text []byte, tokens []token) {
	for _, t := range tokens {
		copy(text[t.from:t.to], bytes.Repeat([]byte(" "), t.to-t.from))
	}
}

// definesTable reports whether a statement is CREATE TABLE or ALTER TABLE, and whether it is ALTER TABLE.
func definesTable(tokens []token) (alters, ok bool) {
	if len(tokens) == 0 || tokens[0].word != "CREATE" && tokens[0].word != "ALTER" {
		return false, false
	}
	for _, t := range tokens[1:] {
		if t.word == "TABLE" {
			return tokens[0].word == "ALTER", true
		}
		if t.word != "TEMPORARY" && t.word != "IGNORE" && t.word != "ONLINE" && t.word != "OFFLINE" {
			return false, false
		}
	}
	return false, false
}

// directory returns the number of tokens in the clause DATA DIRECTORY or INDEX DIRECTORY at the beginning of tokens. It
// returns 0 if tokens begin in another way.
func directory(tokens []token) int {
	if len(tokens) < 3 || tokens[0].word != "DATA" && tokens[0].word != "INDEX" || tokens[1].word != "DIRECTORY" {
		return 0
	}
	n := 2
	if tokens[n].word == "=" {
		n++
	}
	if n == len(tokens) || tokens[n].word[0] != '\'' && tokens[n].word[0] != '"' {
		return 0
	}
	return n + 1
}

// token is a word of a statement, with its offsets in the statement.
type token struct {
	word     string
	from, to int
}

func tokensOf(q binlog.Query) (all []token) {
	w := &lexer{text: q.Text, lead: leadOf(q.Collation), mode: q.Mode}
	for {
		w.space()
		from := len(q.Text) - len(w.text)
		word := w.next()
		if word == "" {
			return all
		}
		all = append(all, token{word, from, len(q.Text) - len(w.text)})
	}
}

// leadOf returns a function that reports whether a byte is the first byte of a two-byte character. For a character set
// whose second bytes never look like a backslash, a backtick or a letter, leadOf returns nil.
func leadOf(collation uint16) func(byte) bool {
	switch collation {
	case 13, 88, 95, 96: // sjis, cp932
		return func(c byte) bool { return c >= 0x81 && c <= 0x9f || c >= 0xe0 && c <= 0xfc }
	case 1, 84, 28, 87, 248, 249, 250: // big5, gbk, gb18030
		return func(c byte) bool { return c >= 0x81 && c <= 0xfe }
	}
	return nil
}

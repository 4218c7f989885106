// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// statuses maps schema and name of a scheduled event, in lower case, to its status on the source. The server of a replay marks each event
// that the replay creates or changes as disabled on a replica. Therefore statuses is computed from the statements of the replay.
type statuses map[[2]string]string

// The statuses of an event, as in the statement ALTER EVENT.
const (
	enabled   = "ENABLE"
	disabled  = "DISABLE"
	ofReplica = "DISABLE ON SLAVE"
)

// eventStatement holds a statement that may create, change or drop events, and the default schema of the statement.
type eventStatement struct {
	schema string
	text   []byte
}

// concernsEvents reports whether a statement may create, change or drop events.
func concernsEvents(text []byte) bool {
	words := words(text)
	switch words.next() {
	case "CREATE", "ALTER":
		words.definer()
		return words.next() == "EVENT"
	case "DROP":
		word := words.next()
		return word == "EVENT" || word == "DATABASE" || word == "SCHEMA"
	}
	return false
}

// apply updates the statuses after a statement.
func (s statuses) apply(e eventStatement) {
	w := words(e.text)
	verb := w.next()
	if verb != "DROP" {
		w.definer()
	}
	kind := w.next()
	exists := false
	for word := w.peek(); word == "IF" || word == "NOT" || word == "EXISTS"; word = w.peek() {
		exists = true
		w.next()
	}
	name := w.name(e.schema)
	switch {
	case verb == "DROP" && kind == "EVENT":
		delete(s, name)
	case verb == "DROP":
		for other := range s {
			if other[0] == name[1] {
				delete(s, other)
			}
		}
	case verb == "CREATE" && exists && s[name] != "":
	default:
		status, renamed := w.clauses(name)
		if status == "" {
			status = s[name]
		}
		if status == "" || verb == "CREATE" && status == s[name] {
			status = enabled
		}
		delete(s, name)
		s[renamed] = status
	}
}

// lexer splits a statement into words (in upper case), names in backticks, texts and single characters.
type lexer struct {
	text  []byte
	ahead string
	has   bool
	// mode is the SQL mode of the statement. lead reports whether a byte is the first byte of a two-byte character; nil
	// for character sets without such characters.
	mode uint64
	lead func(byte) bool
}

func words(text []byte) *lexer { return &lexer{text: text} }

func (l *lexer) peek() string {
	if !l.has {
		l.ahead, l.has = l.scan(), true
	}
	return l.ahead
}

func (l *lexer) next() string {
	word := l.peek()
	l.has = false
	return word
}

// scan returns the next word; "" at the end. Names and texts begin with their quote.
func (l *lexer) scan() string {
	l.space()
	if len(l.text) == 0 {
		return ""
	}
	switch c := l.text[0]; {
	case c == '`' || c == '\'' || c == '"':
		return l.quoted(c)
	case !isWord(c):
		l.text = l.text[1:]
		return string(c)
	}
	n := 0
	for n < len(l.text) && isWord(l.text[n]) {
		n += l.width(n)
	}
	word := string(l.text[:n])
	l.text = l.text[n:]
	return strings.ToUpper(word)
}

// width returns 2 for a two-byte character that lead recognizes, and otherwise 1. For quotes and words, other
// characters may be read byte by byte.
func (l *lexer) width(i int) int {
	if l.lead != nil && l.lead(l.text[i]) && i+1 < len(l.text) && l.text[i+1] >= 0x40 {
		return 2
	}
	return 1
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// space skips white space and comments, but not the content of comments that servers execute.
func (l *lexer) space() {
	for len(l.text) > 0 {
		rest := string(l.text[:min(len(l.text), 4)])
		var end int
		switch {
		case strings.ContainsRune(" \t\r\n\v\f", rune(rest[0])):
			end = 1
		case strings.HasPrefix(rest, "/*!") || rest == "/*M!":
			for end = 2; end < len(l.text) && strings.ContainsRune("M!0123456789", rune(l.text[end])); end++ {
			}
		case strings.HasPrefix(rest, "*/"):
			end = 2
		case strings.HasPrefix(rest, "/*"):
			end = after(l.text, "*/")
		case rest[0] == '#' || strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			end = after(l.text, "\n")
		default:
			return
		}
		l.text = l.text[end:]
	}
}

// after returns the index after the first occurrence of what in text; the length of text without an occurrence.
func after(text []byte, what string) int {
	if i := strings.Index(string(text), what); i >= 0 {
		return i + len(what)
	}
	return len(text)
}

func (l *lexer) quoted(quote byte) string {
	escapes := quote != '`' && l.mode&binlog.ModeNoBackslashEscapes == 0 && (quote == '\'' || l.mode&binlog.ModeAnsiQuotes == 0)
	var b strings.Builder
	b.WriteByte(quote)
	for i := 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case l.width(i) == 2:
			b.WriteByte(c)
			i++
			c = l.text[i]
		case c == '\\' && escapes && i+1 < len(l.text):
			i++
			c = l.text[i]
		case c == quote && i+1 < len(l.text) && l.text[i+1] == quote:
			i++
		case c == quote:
			l.text = l.text[i+1:]
			return b.String()
		}
		b.WriteByte(c)
	}
	l.text = nil
	return b.String()
}

// definer skips OR REPLACE and DEFINER = account.
func (l *lexer) definer() {
	if l.peek() == "OR" {
		l.next()
		l.next()
	}
	if l.peek() != "DEFINER" {
		return
	}
	for word := l.next(); word != ""; word = l.next() {
		if next := l.peek(); next == "EVENT" || next == "VIEW" || next == "PROCEDURE" || next == "FUNCTION" || next == "TRIGGER" || next == "SQL" || next == "AGGREGATE" {
			return
		}
	}
}

// name reads the name of an event or a schema, in lower case: names of events are case-insensitive.
func (l *lexer) name(schema string) [2]string {
	one := strings.TrimLeft(l.next(), "`\"")
	if l.peek() == "." {
		l.next()
		schema, one = one, strings.TrimLeft(l.next(), "`\"")
	}
	return [2]string{strings.ToLower(schema), strings.ToLower(one)}
}

// clauses reads a statement up to the body of an event. It returns the status in the statement, or "", and the event's new name.
func (l *lexer) clauses(name [2]string) (status string, renamed [2]string) {
	renamed = name
	for word := l.next(); word != "" && word != "DO"; word = l.next() {
		switch word {
		case "ENABLE":
			status = enabled
		case "DISABLE":
			status = disabled
			if l.peek() == "ON" {
				status = ofReplica
			}
		case "RENAME":
			l.next() // skips TO
			renamed = l.name(name[0])
		}
	}
	return status, renamed
}

// readStatuses returns the status of each event of a server.
func readStatuses(conn *server.Conn) (statuses, error) {
	events, err := conn.Events()
	if err != nil {
		return nil, err
	}
	s := statuses{}
	for _, e := range events {
		s[e.Key()] = statusOf(e.Status)
	}
	return s, nil
}

// statusOf returns the clause of ALTER EVENT for a status of information_schema.
func statusOf(text string) string {
	switch text {
	case server.EventEnabled:
		return enabled
	case server.EventDisabled:
		return disabled
	}
	return ofReplica
}

// SettleEvents sets the statuses of events that the server stores as disabled on a replica. Keys are schema and name in lower case.
func SettleEvents(conn *server.Conn, of map[[2]string]string) error {
	s := statuses{}
	for name, text := range of {
		s[name] = statusOf(text)
	}
	return s.settle(conn)
}

// settle sets the source's status for each event that a replay has marked as disabled on a replica. No event runs, because the server has
// no scheduler.
func (s statuses) settle(conn *server.Conn) error {
	events, err := conn.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		want := s[e.Key()]
		if e.Status != server.EventOnReplica || want == ofReplica || want == "" {
			continue
		}
		if err := conn.AlterEvent(e, want); err != nil {
			return err
		}
	}
	return nil
}

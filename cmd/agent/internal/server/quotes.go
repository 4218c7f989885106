// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

// Quotes tracks the quotes in statements with the empty SQL mode: a backslash escapes in texts, but not in names. The zero value is outside
// of quotes.
type Quotes struct {
	quote     byte
	isEscaped bool
}

// IsOutside reports whether the next byte is outside of quotes.
func (q *Quotes) IsOutside() bool { return q.quote == 0 }

// Take processes the next byte, and reports whether the byte closes a quote. A doubled quote closes a text and opens it again.
func (q *Quotes) Take(c byte) (closed bool) {
	switch {
	case q.isEscaped:
		q.isEscaped = false
	case q.quote == 0 && (c == '\'' || c == '"' || c == '`'):
		q.quote = c
	case q.quote != 0 && q.quote != '`' && c == '\\':
		q.isEscaped = true
	case q.quote != 0 && c == q.quote:
		q.quote = 0
		return true
	}
	return false
}

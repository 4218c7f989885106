// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"encoding/binary"
	"hash/crc32"
)

// The SQL modes that decide where quoted text ends.
const (
	ModeAnsiQuotes         = 1 << 2
	ModeNoBackslashEscapes = 1 << 20
)

// Query is the statement of a query event.
type Query struct {
	// Text is a part of the event: a change of Text changes the event.
	Text []byte
	// Mode is the SQL mode, and Collation is the number of a collation of the client's character set.
	Mode      uint64
	Collation uint16
}

// QueryOf returns the statement of an event. It returns false if the event has no statement, or a compressed one.
func QueryOf(raw []byte, hasChecksum bool) (Query, bool) {
	const fixed = headerSize + 13
	if hasChecksum && len(raw) >= fixed+4 {
		raw = raw[:len(raw)-4]
	}
	if len(raw) < fixed || raw[4] != typeQuery {
		return Query{}, false
	}
	variables := fixed + int(binary.LittleEndian.Uint16(raw[fixed-2:]))
	begin := variables + int(raw[headerSize+8]) + 1
	if begin > len(raw) {
		return Query{}, false
	}
	q := Query{Text: raw[begin:]}
	q.variables(raw[fixed:variables])
	return q, true
}

// variables reads the status variables up to the character set. The server writes them in a fixed order.
func (q *Query) variables(v []byte) {
	const flags, mode, autoIncrement, charset, catalog = 0, 1, 3, 4, 6
	sizes := map[byte]int{flags: 4, mode: 8, autoIncrement: 4, charset: 6}
	for len(v) > 1 {
		size, ok := sizes[v[0]]
		if v[0] == catalog {
			size, ok = 1+int(v[1]), true
		}
		if !ok || len(v) < 1+size {
			return
		}
		switch v[0] {
		case mode:
			q.Mode = binary.LittleEndian.Uint64(v[1:])
		case charset:
			q.Collation = binary.LittleEndian.Uint16(v[1:])
		}
		v = v[1+size:]
	}
}

// Sign computes the checksum of a changed event.
func Sign(raw []byte) {
	end := len(raw) - 4
	binary.LittleEndian.PutUint32(raw[end:], crc32.ChecksumIEEE(raw[:end]))
}

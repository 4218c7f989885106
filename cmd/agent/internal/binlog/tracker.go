// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binlog archives the binary log of a server, and reads the archive. It never changes the bytes of an event.
package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

const (
	flagArtificial   = 0x20
	headerSize       = 19
	mariaStandalone  = 1
	mariaPreparedXA  = 64
	commitTimeOffset = 42 // in the body of MySQL's GTID event
)

// FirstOffset is the offset of the first event of a file.
const FirstOffset = 4

// Magic holds the first bytes of a binary log file.
var Magic = []byte{0xfe, 'b', 'i', 'n'}

// Event describes an event that a Tracker has read.
type Event struct {
	// Artificial: the event is not in the file; the server created it for this connection.
	Artificial bool
	// Time is the time of the event, by the server's clock.
	Time time.Time
	// Ends reports whether the event ends a transaction. Commit is the transaction's commit time. Exact reports whether Commit is in
	// microseconds; otherwise Commit is truncated to seconds.
	Ends   bool
	Commit time.Time
	Exact  bool
	// Next is the server's next file; "" for the same file.
	Next string
	// Format: the event begins a file. Time is the time at which the server began the file.
	Format bool
	// GTID: the transaction has a GTID. (With gtid_mode=OFF, a server does not apply the transaction.) ID is the GTID in MySQL's form. ID is
	// empty for a GTID with a tag.
	GTID bool
	ID   string
	// Schema is the default schema of a query event. Statement is the text of the statement, which may be truncated.
	Schema    string
	Statement []byte
	// Prepared is the XA transaction that the event prepares. Finished is the XA transaction that the event commits or rolls back. Both use
	// the syntax of XA statements.
	Prepared, Finished string
	// IsXA: the event begins an XA transaction, whose events end with XA PREPARE.
	IsXA bool
	// Opens reports whether a transaction begins with the event.
	Opens bool
}

// Tracker follows the events of a file in order, and records their offsets and the ends of transactions.
type Tracker struct {
	// Offset is the offset of the next event.
	Offset uint64
	// Original selects the commit time on the server that committed a transaction first, instead of the commit time on
	// the server that wrote this log.
	Original bool

	checksum bool
	begun    bool // the transaction began with BEGIN or XA START (MariaDB: with a GTID event that is not standalone), so its statements do not end it
	isOpen   bool // after the GTID event of a transaction, before its end
	commit   time.Time
	exact    bool
}

// Next processes an event with its header. It fails if the event does not follow the previous one. It fails with ErrUnknownType if the
// event's type is unknown.
func (t *Tracker) Next(raw []byte) (Event, error) {
	if len(raw) < headerSize || int(binary.LittleEndian.Uint32(raw[9:])) != len(raw) {
		return Event{}, fmt.Errorf("the event at offset %d is incomplete", t.Offset)
	}
	kind, end, flags := raw[4], binary.LittleEndian.Uint32(raw[13:]), binary.LittleEndian.Uint16(raw[17:])
	if err := checkType(kind, t.Offset); err != nil {
		return Event{}, err
	}
	e := Event{Time: time.Unix(int64(binary.LittleEndian.Uint32(raw)), 0).UTC(), Format: kind == typeFormat}
	if kind == typeFormat {
		if len(raw) < headerSize+5 {
			return e, fmt.Errorf("the description at offset %d is incomplete", t.Offset)
		}
		t.checksum = raw[len(raw)-5] == 1
	}
	body := raw[headerSize:]
	if t.checksum && len(body) >= 4 && kind != typeFormat {
		body = body[:len(body)-4]
	}
	if kind == typeHeartbeat || kind == typeHeartbeat2 || flags&flagArtificial != 0 || end == 0 && (kind == typeRotate || kind == typeFormat) {
		e.Artificial = true
		if kind == typeRotate {
			e.Next = rotateTo(withoutChecksum(raw))
		}
		return e, nil
	}
	t.Offset += uint64(len(raw))
	if end != 0 && uint32(t.Offset) != end { //nolint:gosec // positions in events are the lower 32 bits
		return e, fmt.Errorf("an event ends at offset %d, but the end of the previous event and the length of this event give offset %d: events are missing", end, t.Offset)
	}
	if kind == typeRotate {
		e.Next = rotateTo(body)
		return e, nil
	}
	if err := t.transaction(kind, body, &e); err != nil {
		return e, fmt.Errorf("the event that ends at offset %d: %w", t.Offset, err)
	}
	return e, nil
}

// withoutChecksum returns the body of an event without a checksum at its end. It tests whether the last bytes are a checksum, because the
// first artificial event comes before the format description, and only the format description shows whether events have checksums. By
// chance, one of four billion bodies without a checksum ends with such bytes.
func withoutChecksum(raw []byte) []byte {
	if n := len(raw) - 4; n >= headerSize && crc32.ChecksumIEEE(raw[:n]) == binary.LittleEndian.Uint32(raw[n:]) {
		return raw[headerSize:n]
	}
	return raw[headerSize:]
}

// rotateTo returns the file name in a rotation event.
func rotateTo(body []byte) string {
	if len(body) < 8 {
		return ""
	}
	return string(body[8:])
}

// transaction determines whether an event ends a transaction.
func (t *Tracker) transaction(kind byte, body []byte, e *Event) error {
	over := false
	switch kinds[kind].effect {
	case unknown, none:
	case opens:
		e.Opens, t.isOpen = true, true
		t.open(kind, body, e)
	case ends:
		over = true
		if kind == typeXAPrepare {
			e.Prepared = prepared(body)
		}
		if kind == typePayload {
			e.Prepared, _ = preparedInside(body) // on an error there is no prepared transaction: the server refuses an unreadable event
			e.IsXA = e.Prepared != ""
		}
	case statement:
		over = !t.begun
		if kind == typeQuery || kind == typeQueryCompressed {
			var err error
			if e.Schema, e.Statement, err = queryEvent(kind, body); err != nil {
				return err
			}
			over = t.query(e.Statement)
			e.IsXA = bytes.HasPrefix(e.Statement, []byte("XA START"))
			for _, verb := range []string{"XA COMMIT ", "XA ROLLBACK "} {
				if rest, ok := bytes.CutPrefix(e.Statement, []byte(verb)); ok {
					e.Finished = strings.ToLower(string(rest))
				}
			}
		}
	}
	if over {
		e.Ends, e.Commit, e.Exact = true, t.commit, t.exact
		if !t.exact {
			e.Commit = e.Time
		}
		t.begun, t.isOpen, t.commit, t.exact = false, false, time.Time{}, false
	}
	return nil
}

// prepared returns the name of the XA transaction that an event prepares; "" if the same event commits the transaction.
func prepared(body []byte) string {
	const head = 13
	if len(body) < head || body[0] != 0 {
		return ""
	}
	format, global := binary.LittleEndian.Uint32(body[1:]), int(binary.LittleEndian.Uint32(body[5:]))
	branch := int(binary.LittleEndian.Uint32(body[9:]))
	if global < 0 || branch < 0 || global > 64 || branch > 64 || len(body) < head+global+branch {
		return ""
	}
	return fmt.Sprintf("x'%x',x'%x',%d", body[head:head+global], body[head+global:head+global+branch], format)
}

// open records the GTID event before a transaction.
func (t *Tracker) open(kind byte, body []byte, e *Event) {
	t.begun, t.commit, t.exact = false, time.Time{}, false
	if kind == typeMariaGTID {
		t.begun = len(body) > 12 && body[12]&mariaStandalone == 0
		e.IsXA = len(body) > 12 && body[12]&mariaPreparedXA != 0
		return
	}
	e.GTID = kind != typeAnonymous
	if kind == typeGTID && len(body) >= 25 {
		e.ID = fmt.Sprintf("%x-%x-%x-%x-%x:%d", body[1:5], body[5:7], body[7:9], body[9:11], body[11:17], binary.LittleEndian.Uint64(body[17:]))
	}
	if kind == typeTaggedGTID || len(body) < commitTimeOffset+7 {
		return
	}
	micros := sevenBytes(body[commitTimeOffset:])
	if second := commitTimeOffset + 7; t.Original && micros&hasOriginal != 0 && len(body) >= second+7 {
		micros = sevenBytes(body[second:])
	}
	t.commit, t.exact = time.UnixMicro(int64(micros&(hasOriginal-1))).UTC(), true
}

// hasOriginal is the bit in a commit time that announces a second time: the commit time on the first server.
const hasOriginal = 1 << 55

func sevenBytes(b []byte) (n uint64) {
	for i := 6; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// query reports whether a statement ends a transaction. After BEGIN, only COMMIT and ROLLBACK do. Without BEGIN, each statement is a
// transaction. MariaDB writes a long ALTER as two events, START ALTER and COMMIT ALTER: only COMMIT ALTER changes something.
func (t *Tracker) query(text []byte) bool {
	switch {
	case bytes.Equal(text, []byte("BEGIN")), bytes.HasPrefix(text, []byte("XA START")):
		t.begun = true
		return false
	case bytes.Equal(text, []byte("COMMIT")), bytes.Equal(text, []byte("ROLLBACK")), bytes.HasPrefix(text, []byte("XA COMMIT")), bytes.HasPrefix(text, []byte("XA ROLLBACK")):
		return true
	case bytes.HasPrefix(text, []byte("START ALTER ")):
		return false
	}
	return !t.begun
}

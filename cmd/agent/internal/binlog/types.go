// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of events that the Tracker parses. The numbers of MySQL and MariaDB do not overlap.
const (
	typeQuery           = 2
	typeStop            = 3
	typeRotate          = 4
	typeFormat          = 15
	typeXID             = 16
	typeHeartbeat       = 27
	typeGTID            = 33
	typeAnonymous       = 34
	typeXAPrepare       = 38
	typePayload         = 40
	typeHeartbeat2      = 41
	typeTaggedGTID      = 42
	typeMariaGTID       = 162
	typeQueryCompressed = 165
)

// effect classifies a type of events by its effect on transactions.
type effect byte

const (
	// unknown: the documentation of released servers lacks the type, or no server from MySQL 5.7 and MariaDB 10.2 on writes it.
	unknown effect = iota
	// none: the event neither begins nor ends a transaction.
	none
	// opens: the event is a GTID event, which begins a transaction.
	opens
	// ends: the event ends a transaction.
	ends
	// statement: the event ends a transaction, unless BEGIN precedes the event.
	statement
)

// kinds lists every event type that servers from MySQL 5.7 and MariaDB 10.2 on write. Next refuses a type that is missing here, because
// such an event may end a transaction or change data.
var kinds = map[byte]struct {
	name   string
	effect effect
}{
	typeQuery: {"Query", statement}, typeStop: {"Stop", none}, typeRotate: {"Rotate", none}, 5: {"Intvar", none}, 9: {"Append_block", none},
	11: {"Delete_file", none}, 13: {"RAND", none}, 14: {"User_var", none}, typeFormat: {"Format_desc", none}, typeXID: {"Xid", ends},
	17: {"Begin_load_query", none}, 18: {"Execute_load_query", statement}, 19: {"Table_map", none},
	23: {"Write_rows_v1", none}, 24: {"Update_rows_v1", none}, 25: {"Delete_rows_v1", none}, 26: {"Incident", statement}, typeHeartbeat: {"Heartbeat", none},
	28: {"Ignorable", none}, 29: {"Rows_query", none}, 30: {"Write_rows", none}, 31: {"Update_rows", none}, 32: {"Delete_rows", none},
	typeGTID: {"Gtid", opens}, typeAnonymous: {"Anonymous_Gtid", opens}, 35: {"Previous_gtids", none}, 36: {"Transaction_context", none}, 37: {"View_change", none},
	typeXAPrepare: {"XA_prepare", ends}, 39: {"Update_rows_partial", none}, typePayload: {"Transaction_payload", ends}, typeHeartbeat2: {"Heartbeat_v2", none},
	typeTaggedGTID: {"Gtid_tagged", opens},
	160:            {"Annotate_rows", none}, 161: {"Binlog_checkpoint", none}, typeMariaGTID: {"Gtid (MariaDB)", opens}, 163: {"Gtid_list", none}, 164: {"Start_encryption", none},
	typeQueryCompressed: {"Query_compressed", statement}, 166: {"Write_rows_compressed_v1", none}, 167: {"Update_rows_compressed_v1", none},
	168: {"Delete_rows_compressed_v1", none}, 169: {"Write_rows_compressed", none}, 170: {"Update_rows_compressed", none}, 171: {"Delete_rows_compressed", none},
}

// ErrUnknownType reports an event whose type is not in the table: its effect on data is unknown.
var ErrUnknownType = errors.New("the event's type is unknown to this agent")

// checkType fails with ErrUnknownType for an event of a type that is not in the table.
func checkType(kind byte, offset uint64) error {
	if kinds[kind].effect != unknown {
		return nil
	}
	return fmt.Errorf("event of type %d at offset %d: %w: use an agent that supports the server's version", kind, offset, ErrUnknownType)
}

// longestStatement limits the number of bytes of a statement that are decompressed. A replay needs only the clauses before the body of an
// event or a routine, which are shorter.
const longestStatement = 64 << 10

// queryEvent returns the default schema and the text of a query event. It fails if the header is incomplete.
func queryEvent(kind byte, body []byte) (schema string, text []byte, err error) {
	const fixed = 13
	if len(body) < fixed {
		return "", nil, fmt.Errorf("a query event of %d bytes has no whole header", len(body))
	}
	name := fixed + int(binary.LittleEndian.Uint16(body[11:]))
	start := name + int(body[8]) + 1
	if start > len(body) {
		return "", nil, fmt.Errorf("a query event of %d bytes names a statement at byte %d", len(body), start)
	}
	schema, text = string(body[name:start-1]), body[start:]
	if kind == typeQueryCompressed {
		text, err = inflate(text)
	}
	return schema, text, err
}

// inflate decompresses the beginning of a statement. The first byte contains the algorithm and the size of the length
// field. The length and the compressed text follow.
func inflate(packed []byte) ([]byte, error) {
	if len(packed) < 2 || packed[0]&0x70 != 0 || packed[0]&7 > 4 || len(packed) < 1+int(packed[0]&7) {
		return nil, errors.New("a compressed query event has an unknown header")
	}
	r, err := zlib.NewReader(bytes.NewReader(packed[1+int(packed[0]&7):]))
	if err != nil {
		return nil, fmt.Errorf("read a compressed query event: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, longestStatement))
	if err != nil {
		return nil, fmt.Errorf("read a compressed query event: %w", err)
	}
	return text, nil
}

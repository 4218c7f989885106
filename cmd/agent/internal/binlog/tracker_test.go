// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"gotest.tools/v3/assert"
)

// The archive and the replay fail at an event whose type is not in the table. The table contains every type of the client library, except
// types that only servers before MySQL 5.0 wrote.
func TestEveryEventTypeIsKnownOrRefused(t *testing.T) {
	t.Parallel()
	before := map[byte]bool{0: true, 1: true, 6: true, 7: true, 8: true, 10: true, 12: true, 20: true, 21: true, 22: true}
	for number := range 256 {
		kind := byte(number)
		raw := make([]byte, headerSize+4)
		raw[4] = kind
		binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
		tracker := Tracker{Offset: FirstOffset}
		_, err := tracker.Next(raw)
		library := !strings.HasPrefix(replication.EventType(kind).String(), "Unknown")
		if _, known := kinds[kind]; known {
			assert.Assert(t, !errors.Is(err, ErrUnknownType), "type %d", kind)
			assert.Assert(t, library || kind >= 169, "type %d is in the table, but not in the library", kind)
			continue
		}
		assert.ErrorIs(t, err, ErrUnknownType)
		assert.ErrorContains(t, err, fmt.Sprintf("type %d at offset 4", kind))
		assert.Equal(t, tracker.Offset, uint64(FirstOffset), "the event was skipped")
		assert.Equal(t, library, before[kind] && kind != 0, "type %d is in the library, but not in the table", kind)
	}
}

// A server begins with an artificial rotation. At that time, the client cannot determine if events have checksums.
// Some checksums look like further digits of the file's name; the tracker still returns the right name.
func TestArtificialRotations(t *testing.T) {
	t.Parallel()
	digits := 0
	for n := range 5000 {
		name := fmt.Sprintf("binlog.%06d", n)
		raw := make([]byte, headerSize, headerSize+8+len(name)+4)
		raw[4] = typeRotate
		binary.LittleEndian.PutUint16(raw[17:], flagArtificial)
		raw = append(binary.LittleEndian.AppendUint64(raw, FirstOffset), name...)
		for _, checksum := range []bool{false, true} {
			if checksum {
				raw = append(raw, 0, 0, 0, 0)
			}
			binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
			if sum := crc32.ChecksumIEEE(raw[:len(raw)-4]); checksum {
				binary.LittleEndian.PutUint32(raw[len(raw)-4:], sum)
				if first := byte(sum); first >= '0' && first <= '9' {
					digits++
				}
			}
			e, err := (&Tracker{Offset: FirstOffset}).Next(raw)
			if err != nil || !e.Artificial || e.Next != name {
				t.Fatalf("%s, with a checksum: %t: the next file is %q: %+v (%v)", name, checksum, e.Next, e, err)
			}
		}
	}
	if digits == 0 {
		t.Error("no checksum began with a digit")
	}
}

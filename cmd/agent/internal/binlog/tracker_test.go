// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
)

// A server begins what it sends with an artificial rotation, before it is known whether events have checksums. Some checksums
// look as if the number in the file's name went on.
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
				t.Fatalf("%s, with a checksum: %t: it goes on with %q: %+v (%v)", name, checksum, e.Next, e, err)
			}
		}
	}
	if digits == 0 {
		t.Error("no checksum began with a digit")
	}
}

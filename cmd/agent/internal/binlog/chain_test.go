// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/internal/contract"
)

// chain returns segments from a text such as "1:4-100 1:100-200>2": file 1 from offset 4 to 100, then from 100 to 200, after which file 2
// follows.
func chain(t *testing.T, words string) []manifest.Segment {
	t.Helper()
	var segments []manifest.Segment
	for _, word := range strings.Fields(words) {
		var file, next int
		var s manifest.Segment
		word, rest, _ := strings.Cut(word, ">")
		if _, err := fmt.Sscanf(word, "%d:%d-%d", &file, &s.From, &s.To); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(rest, &next); err == nil {
			s.Next = fmt.Sprintf("bin.%06d", next)
		}
		s.File = fmt.Sprintf("bin.%06d", file)
		segments = append(segments, s)
	}
	return segments
}

func TestChain(t *testing.T) {
	for _, c := range []struct {
		name, have, head string
		length           int
		whole            bool
	}{
		{"in order", "1:4-100 1:100-200>2 2:4-50", "2:50", 3, true},
		{"in any order", "2:4-50 1:100-200>2 1:4-100", "2:50", 3, true},
		{"an empty end of a file", "1:4-100 1:100-100>2 2:4-50", "2:50", 3, true},
		{"a seventh digit in the file number", "999999:4-100>1000000 1000000:4-50", "1000000:50", 2, true},
		{"two archives", "1:4-100 1:4-150 1:100-300 1:150-200 1:200-300", "1:300", 3, true},
		{"a hole", "1:4-100 1:150-200", "1:200", 1, false},
		{"a file is missing", "1:4-100>2 3:4-50", "3:50", 1, false},
		{"the end of a file is missing", "1:4-100 2:4-50", "2:50", 1, false},
		{"the beginning is missing", "1:100-200", "1:200", 0, false},
		{"the end is missing", "1:4-100", "1:200", 1, false},
		{"all segments are missing", "", "1:200", 0, false},
		{"nothing was archived yet", "", ":0", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var head manifest.Head
			file, offset, _ := strings.Cut(c.head, ":")
			if n := 0; file != "" {
				_, _ = fmt.Sscan(file, &n)
				head.Position.File = fmt.Sprintf("bin.%06d", n)
			}
			_, _ = fmt.Sscan(offset, &head.Position.Offset)
			got, err := Chain(chain(t, c.have), head)
			if len(got) != c.length || (err == nil) != c.whole {
				t.Errorf("%d segments, %v", len(got), err)
			}
			if err != nil && contract.ReasonOf(err) != contract.ReasonDamaged {
				t.Error(err)
			}
		})
	}
}

// One segment is missing in a chain. Chain returns the segments before it, and an error.
func TestChainWithHoles(t *testing.T) {
	random := chance.New(t, 1)
	for range 2000 {
		var all []manifest.Segment
		at := contract.Position{File: "bin.000001", Offset: 4}
		for i := range 2 + random.Intn(10) {
			s := manifest.Segment{File: at.File, From: at.Offset, To: at.Offset + 1 + uint64(random.Intn(100))}
			if random.Intn(3) == 0 {
				s.To -= uint64(random.Intn(2))
				s.Next = fmt.Sprintf("bin.%06d", i+2)
			}
			all, at = append(all, s), s.End()
		}
		hole := 1 + random.Intn(len(all)-1) // if the first file were removed, the chain would begin with the second
		left := append(append([]manifest.Segment(nil), all[:hole]...), all[hole+1:]...)
		got, err := Chain(left, manifest.Head{Position: at})
		if err == nil || len(got) != hole {
			t.Fatalf("without segment %d of %d: %d segments, %v", hole, len(all), len(got), err)
		}
	}
}

// event returns an encoded event.
func event(kind byte, at uint64, body []byte) []byte {
	raw := make([]byte, headerSize+len(body))
	binary.LittleEndian.PutUint32(raw, 1_700_000_000)
	raw[4] = kind
	binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(raw[13:], uint32(at)+uint32(len(raw)))
	copy(raw[headerSize:], body)
	return raw
}

func query(text string) []byte { return append(make([]byte, 14), text...) }

func TestTracker(t *testing.T) {
	maria := make([]byte, 19)
	alone := append([]byte(nil), maria...)
	alone[12] = mariaStandalone
	for _, c := range []struct {
		name   string
		events [][2]any
		ends   string // for each event: 1 if it ends a transaction
	}{
		{"MySQL 5.7", [][2]any{{typeAnonymous, make([]byte, 25)}, {typeQuery, query("BEGIN")}, {30, []byte("rows")}, {typeXID, make([]byte, 8)}}, "0001"},
		{"a statement alone", [][2]any{{typeAnonymous, make([]byte, 25)}, {5, []byte("var")}, {typeQuery, query("CREATE TABLE t (id int)")}}, "001"},
		{"statements in a transaction", [][2]any{{typeAnonymous, make([]byte, 25)}, {typeQuery, query("BEGIN")}, {typeQuery, query("INSERT INTO t VALUES (1)")}, {typeQuery, query("COMMIT")}}, "0001"},
		{"MariaDB", [][2]any{{typeMariaGTID, maria}, {30, []byte("rows")}, {typeXID, make([]byte, 8)}}, "001"},
		{"MariaDB, a statement in a transaction", [][2]any{{typeMariaGTID, maria}, {typeQuery, query("SAVEPOINT a")}, {typeQuery, query("COMMIT")}}, "001"},
		{"MariaDB, a statement alone", [][2]any{{typeMariaGTID, alone}, {typeQuery, query("DROP TABLE t")}}, "01"},
		{"compressed", [][2]any{{typeGTID, make([]byte, 25)}, {typePayload, []byte("zstd")}}, "01"},
		{"XA", [][2]any{{typeAnonymous, make([]byte, 25)}, {typeQuery, query("XA START X'01'")}, {30, []byte("rows")}, {typeQuery, query("XA END X'01'")}, {typeXAPrepare, []byte("x")},
			{typeAnonymous, make([]byte, 25)}, {typeQuery, query("XA COMMIT X'01'")}}, "0000101"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker, ends := &Tracker{Offset: FirstOffset}, ""
			for _, e := range c.events {
				got, err := tracker.Next(event(byte(e[0].(int)), tracker.Offset, e[1].([]byte)))
				assert.NilError(t, err)
				ends += map[bool]string{true: "1", false: "0"}[got.Ends]
			}
			if ends != c.ends {
				t.Errorf("transactions end at %s, want %s", ends, c.ends)
			}
		})
	}
	tracker := &Tracker{Offset: FirstOffset}
	if _, err := tracker.Next(event(typeXID, 100, make([]byte, 8))); err == nil {
		t.Error("an event that does not continue the previous event is accepted")
	}
}

// Next accepts or refuses any event without a panic. After an accepted event that is not artificial, the tracker's offset has grown by the
// length of the event.
func FuzzTracker(f *testing.F) {
	f.Add(event(typeQuery, 4, query("BEGIN")))
	f.Add(event(typeFormat, 4, make([]byte, 90)))
	f.Add(event(typeRotate, 4, []byte("12345678binlog.000002")))
	f.Add(event(typeGTID, 4, make([]byte, 60)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tracker := &Tracker{Offset: FirstOffset}
		e, err := tracker.Next(raw)
		if err == nil && !e.Artificial && tracker.Offset != FirstOffset+uint64(len(raw)) {
			t.Errorf("offset %d after %d bytes", tracker.Offset, len(raw))
		}
	})
}

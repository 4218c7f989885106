// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

const (
	typeEntry, typeState, typeSnapshot = 2, 3, 5
	entryTerm, entryIndex              = 2, 3 // field numbers
	stateCommit                        = 3
	snapshotIndex, snapshotTerm        = 1, 2
)

// tracker follows the entries of a log.
type tracker struct {
	last   member.Position // last entry of the log
	agreed member.Position // last entry on which the members have agreed
	open   []member.Position
}

// see processes the next record.
func (t *tracker) see(record fields) {
	data, err := decode(record.texts[recordData])
	if err != nil {
		return
	}
	switch record.numbers[recordType] {
	case typeEntry:
		t.last = member.Position{Term: data.numbers[entryTerm], Index: data.numbers[entryIndex]}
		for len(t.open) > 0 && t.open[len(t.open)-1].Index >= t.last.Index {
			t.open = t.open[:len(t.open)-1] // entries of a new leader replace uncommitted entries
		}
		t.open = append(t.open, t.last)
	case typeSnapshot:
		if at := (member.Position{Term: data.numbers[snapshotTerm], Index: data.numbers[snapshotIndex]}); t.last.Index < at.Index {
			t.last = at
		}
	case typeState:
		for len(t.open) > 0 && t.open[0].Index <= data.numbers[stateCommit] {
			t.agreed, t.open = t.open[0], t.open[1:]
		}
	}
}

// Follow returns a function that reads the entries that etcd has appended since the last call. The function returns the last committed
// entry and the last entry.
func (*Server) Follow(folder string) func() (agreed, last member.Position) {
	var file string
	var at int64
	sum, track := uint32(0), &tracker{}
	return func() (agreed, last member.Position) {
		logs, err := filepath.Glob(filepath.Join(folder, "member", "wal", "*.wal"))
		if err != nil || len(logs) == 0 {
			return track.agreed, track.last
		}
		if latest := logs[len(logs)-1]; latest != file {
			// The last records of the previous file may not have been read: the agent's next start reads them, or entries of this file
			// replace them.
			file, at, sum = latest, 0, 0
		}
		at, sum = track.readFrom(file, at, sum)
		return track.agreed, track.last
	}
}

// readFrom reads the complete records of a file, starting at the offset at. sum is the checksum of all earlier records. It returns the
// offset and the checksum after the last complete record, where the next call continues.
func (t *tracker) readFrom(file string, at int64, sum uint32) (int64, uint32) {
	f, err := os.Open(file)
	if err != nil {
		return at, sum
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(f, at, 1<<62), 1<<20)
	for {
		var length uint64
		if err := binary.Read(r, binary.LittleEndian, &length); err != nil || length == 0 {
			return at, sum
		}
		size, padding := sizes(length)
		if size > longestRecord {
			return at, sum
		}
		frame := make([]byte, size+padding)
		if _, err := io.ReadFull(r, frame); err != nil {
			return at, sum
		}
		next, err := verify(frame[:size], sum, t)
		if err != nil {
			return at, sum
		}
		at, sum = at+8+size+padding, next
	}
}

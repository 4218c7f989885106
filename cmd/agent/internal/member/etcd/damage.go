// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

const (
	recordCRC = 2 // field number
	typeCRC   = 4
	lastType  = 5
	// longestRecord is longer than any record that etcd writes, and shorter than a typical damaged length.
	longestRecord = 1 << 30
	// sector is the smallest unit that a disk writes atomically.
	sector = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errEnd marks an incomplete last record. etcd truncates such a record, and has not acknowledged it.
var errEnd = errors.New("the end of the log")

// Inspect returns the evidence of damage to the write-ahead log, "" for none, and the end of the log. Each record has a checksum of
// its data and of all records before it. If a checksum is wrong, etcd does not start. If the length of a record is wrong, etcd
// mistakes the record for the incomplete last record after a power failure. etcd then truncates the log there, and votes without
// records that it had acknowledged. After a real power failure, the sectors that were not written contain zeros.
func (*Server) Inspect(folder string) (damage string, last member.Position) {
	logs, err := filepath.Glob(filepath.Join(folder, "member", "wal", "*.wal"))
	if err != nil {
		return "", last // cannot fail: the pattern is valid
	}
	sum, track := uint32(0), &tracker{}
	for _, file := range logs {
		if sum, err = readLog(file, sum, track); errors.Is(err, errEnd) {
			break
		} else if err != nil {
			return fmt.Sprintf("%s: %v", filepath.Base(file), err), track.last
		}
	}
	return "", track.last
}

// readLog checks a file of the log. sum is the checksum of the earlier files; the result includes this file. readLog returns errEnd if the
// last record is incomplete. It also returns errEnd for a file that it cannot read, because etcd itself reports that.
func readLog(file string, sum uint32, track *tracker) (uint32, error) {
	f, err := os.Open(file)
	if err != nil {
		return sum, errEnd
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sum, errEnd
	}
	r, at := bufio.NewReaderSize(f, 1<<20), int64(0)
	for {
		var length uint64
		if err := binary.Read(r, binary.LittleEndian, &length); err != nil || length == 0 {
			return sum, nil
		}
		size, padding := sizes(length)
		if size > longestRecord {
			return sum, fmt.Errorf("the record at %d has an impossible length of %d bytes", at, size)
		}
		left := info.Size() - at - 8
		frame := make([]byte, min(size+padding, left))
		if _, err := io.ReadFull(r, frame); err != nil {
			return sum, errEnd
		}
		cut := size+padding > left
		if !cut {
			sum, err = verify(frame[:size], sum, track)
		}
		switch {
		case (cut || err != nil && torn(frame, at+8)) && !followed(frame):
			return sum, errEnd
		case cut:
			return sum, fmt.Errorf("the record at %d seems to have %d bytes, but these bytes contain other records", at, size)
		case err != nil:
			return sum, fmt.Errorf("the record at %d %w", at, err)
		}
		if at += 8 + size + padding; at%8 != 0 {
			return sum, fmt.Errorf("the record before %d is not filled up to eight bytes", at)
		}
	}
}

// sizes returns the sizes of a record and of its padding in bytes.
func sizes(length uint64) (size, padding int64) {
	if length>>63 == 1 {
		padding = int64(length >> 56 & 7)
	}
	return int64(length & (1<<56 - 1)), padding
}

// followed reports whether the bytes of one record contain two consecutive records. If they do, the record's length is damaged.
func followed(frame []byte) bool {
	const far = 16 << 20 // larger than a usual record
	for at := 0; at < min(len(frame), far); at += 8 {
		first, rest, ok := cutRecord(frame[at:])
		if !ok {
			continue
		}
		if second, _, ok := cutRecord(rest); ok && crc32.Update(sumOf(first), castagnoli, second.texts[recordData]) == sumOf(second) {
			return true
		}
	}
	return false
}

// cutRecord returns the record at the start of data, and the remaining data.
func cutRecord(data []byte) (found fields, rest []byte, ok bool) {
	if len(data) < 8 {
		return found, nil, false
	}
	size, padding := sizes(binary.LittleEndian.Uint64(data))
	if size == 0 || size+padding > int64(len(data))-8 {
		return found, nil, false
	}
	found, err := decode(data[8 : 8+size])
	if kind := found.numbers[recordType]; err != nil || kind < 1 || kind > lastType {
		return found, nil, false
	}
	return found, data[8+size+padding:], true
}

func sumOf(record fields) uint32 {
	return uint32(record.numbers[recordCRC]) //nolint:gosec // etcd writes 32 bits
}

// verify checks a record. sum is the checksum of all earlier records; the result includes this record.
func verify(record []byte, sum uint32, track *tracker) (uint32, error) {
	found, err := decode(record)
	if err != nil {
		return sum, fmt.Errorf("is %w", err)
	}
	if kind := found.numbers[recordType]; kind < 1 || kind > lastType {
		return sum, fmt.Errorf("has the unknown type %d", kind)
	}
	carries := sumOf(found)
	if found.numbers[recordType] == typeCRC {
		if sum != 0 && carries != sum {
			return sum, errors.New("has a checksum that does not follow from the records before it")
		}
		return carries, nil
	}
	if sum = crc32.Update(sum, castagnoli, found.texts[recordData]); sum != carries {
		return sum, errors.New("does not have its checksum")
	}
	track.see(found)
	return sum, nil
}

// torn reports whether a sector of a frame contains only zeros, because it was not written. offset is the offset of the frame in its file.
func torn(frame []byte, offset int64) bool {
	for len(frame) > 0 {
		n := min(int64(len(frame)), sector-offset%sector)
		zero := true
		for _, b := range frame[:n] {
			zero = zero && b == 0
		}
		if zero {
			return true
		}
		frame, offset = frame[n:], offset+n
	}
	return false
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"
)

// The end of an RDB file: an opcode, and the CRC64 of all previous bytes. If the server sent the data without a file on its disk, redis-cli
// also writes 40 hexadecimal digits: the mark by which it found the end.
const (
	opcodeEOF   = 0xff
	trailerSize = 1 + 8
	markSize    = 40
)

// jones has the polynomial 0xad93d23594c935a9, with its bits reversed as package hash/crc64 requires.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum continues Redis' CRC64, which begins with 0 and inverts no bits. Package crc64 inverts the bits before and
// after. So checksum inverts them back.
func checksum(sum uint64, p []byte) uint64 { return ^crc64.Update(^sum, jones, p) }

// rdb forwards an RDB file, and checks that the file is complete. It drops everything that redis-cli writes after the file.
type rdb struct {
	to   io.Writer
	head []byte
	last []byte // the last bytes, which may be the end of the file and the mark
	sum  uint64
	n    int64 // number of forwarded bytes
}

func (r *rdb) Write(p []byte) (int, error) {
	r.last = append(r.last, p...)
	if over := len(r.last) - trailerSize - markSize; over > 0 {
		if err := r.pass(over); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// pass forwards the first n of the kept bytes.
func (r *rdb) pass(n int) error {
	p := r.last[:n]
	if missing := len(rdbHead) - len(r.head); missing > 0 {
		r.head = append(r.head, p[:min(missing, n)]...)
	}
	r.sum = checksum(r.sum, p)
	if _, err := r.to.Write(p); err != nil {
		return err
	}
	r.n += int64(n)
	r.last = append(r.last[:0], r.last[n:]...)
	return nil
}

// rdbHead holds the first bytes of each RDB file.
const rdbHead = "REDIS"

// partial describes why the output is not a complete RDB file.
type partial string

func (p partial) Error() string { return string(p) }

// Close forwards the remaining bytes. It fails with partial unless the written bytes are a complete RDB file.
func (r *rdb) Close() error {
	if mark := len(r.last) - markSize; mark >= trailerSize && r.last[mark-trailerSize] == opcodeEOF && isHex(r.last[mark:]) {
		r.last = r.last[:mark]
	}
	if len(r.last) < trailerSize {
		return partial(fmt.Sprintf("%d bytes are no RDB file", r.n+int64(len(r.last))))
	}
	if err := r.pass(len(r.last) - trailerSize); err != nil {
		return err
	}
	switch {
	case string(r.head) != rdbHead:
		return partial(fmt.Sprintf("an RDB file begins with %q, this one with %q", rdbHead, r.head))
	case r.last[0] != opcodeEOF:
		return partial("the RDB file has no end")
	}
	// The CRC64 includes the opcode. Servers with rdbchecksum off write 0.
	want, sum := binary.LittleEndian.Uint64(r.last[1:]), checksum(r.sum, r.last[:1])
	if want != 0 && want != sum {
		return partial(fmt.Sprintf("the RDB file has the CRC64 %016x, but %016x at its end", sum, want))
	}
	_, err := r.to.Write(r.last)
	r.n += int64(len(r.last))
	r.last = nil
	return err
}

func isHex(p []byte) bool { return len(bytes.Trim(p, "0123456789abcdef")) == 0 }

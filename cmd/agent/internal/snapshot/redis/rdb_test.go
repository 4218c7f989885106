// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// file returns an RDB file with some content, as a server writes it.
func file(content string) []byte {
	text := append([]byte("REDIS0010"+content), opcodeEOF)
	return binary.LittleEndian.AppendUint64(text, checksum(0, text))
}

func TestChecksum(t *testing.T) {
	if sum := checksum(0, []byte("123456789")); sum != 0xe9c6d914c4b8d9ca { // the check value of CRC-64/REDIS
		t.Fatalf("%x", sum)
	}
}

func TestRDB(t *testing.T) {
	whole, mark := file(strings.Repeat("content", 1000)), strings.Repeat("0123456789abcdef", 3)[:markSize]
	with := func(at int, b byte) []byte {
		changed := bytes.Clone(whole)
		changed[at] = b
		return changed
	}
	unsummed := append(bytes.Clone(whole[:len(whole)-8]), make([]byte, 8)...)
	tests := []struct {
		name   string
		text   []byte
		want   []byte
		broken string
	}{
		{name: "whole", text: whole, want: whole},
		{name: "small", text: file(""), want: file("")},
		{name: "with a mark", text: append(bytes.Clone(whole), mark...), want: whole},
		{name: "without a checksum", text: unsummed, want: unsummed},
		{name: "without a checksum, with a mark", text: append(bytes.Clone(unsummed), mark...), want: unsummed},
		{name: "content that looks like a mark", text: file(mark), want: file(mark)},
		{name: "empty", broken: "0 bytes are no RDB file"},
		{name: "shorter than the end of a file", text: []byte("REDIS"), broken: "5 bytes"},
		{name: "other words", text: append([]byte("sorry"), whole[5:]...), broken: `begins with "REDIS", this one with "sorry"`},
		{name: "cut in the content", text: whole[:1000], broken: "has no end"},
		{name: "cut in the checksum", text: whole[:len(whole)-1], broken: "has no end"},
		{name: "half a mark", text: append(bytes.Clone(whole), mark[:20]...), broken: "has no end"},
		{name: "another byte", text: with(100, 'X'), broken: "CRC64"},
		{name: "another version", text: with(8, '9'), broken: "CRC64"},
		{name: "another checksum", text: with(len(whole)-1, whole[len(whole)-1]^1), broken: "CRC64"},
	}
	for _, test := range tests {
		for _, size := range []int{1, 7, 49, 50, 4096, 1 << 20} {
			out := &bytes.Buffer{}
			r := &rdb{to: out}
			for rest := test.text; len(rest) > 0; {
				n := min(size, len(rest))
				if _, err := r.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			err := r.Close()
			var broken partial
			switch {
			case test.broken == "" && (err != nil || !bytes.Equal(out.Bytes(), test.want)):
				t.Errorf("%s, in pieces of %d bytes: %v, %d bytes, want %d", test.name, size, err, out.Len(), len(test.want))
			case test.broken != "" && (!errors.As(err, &broken) || !strings.Contains(err.Error(), test.broken)):
				t.Errorf("%s, by %d: %v", test.name, size, err)
			}
		}
	}
}

// An error of the output is not an error of the file.
func TestRDBFull(t *testing.T) {
	full := errors.New("full")
	r := &rdb{to: writer(func([]byte) (int, error) { return 0, full })}
	_, err := r.Write(file(strings.Repeat("content", 100)))
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	r = &rdb{to: writer(func([]byte) (int, error) { return 0, full })}
	_, _ = r.Write(file("")) // everything is kept until the end
	var broken partial
	if err := r.Close(); !errors.Is(err, full) || errors.As(err, &broken) {
		t.Fatal(err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

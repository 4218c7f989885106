// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Types of the fields in the header of a payload. A field has a type, the length of the value, and the value.
const (
	payloadEnd         = 0
	payloadCompression = 2
)

var decoders = sync.Pool{New: func() any {
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)) // cannot fail: the options are valid
	return d
}}

// preparedInside returns the XA transaction that a compressed transaction of MySQL prepares; "" for none. If the first
// event does not begin an XA transaction, it decompresses only the beginning.
func preparedInside(body []byte) (name string, err error) {
	isPlain := false
	for {
		if len(body) == 0 || body[0] != payloadEnd && (len(body) < 3 || len(body) < 2+int(body[1])) {
			return "", fmt.Errorf("a payload of %d bytes has no whole header", len(body))
		}
		if body[0] == payloadEnd {
			break
		}
		isPlain = isPlain || body[0] == payloadCompression && body[2] != 0 // 0 is zstd
		body = body[2+int(body[1]):]
	}
	r := io.Reader(bytes.NewReader(body[1:]))
	if !isPlain {
		decoder := decoders.Get().(*zstd.Decoder)
		defer decoders.Put(decoder)
		if err := decoder.Reset(r); err != nil {
			return "", err
		}
		r = decoder
	}
	return preparedIn(r)
}

// preparedIn returns the XA transaction that decompressed events prepare; "" for none. These events have no checksums.
func preparedIn(r io.Reader) (name string, err error) {
	head := make([]byte, headerSize)
	for isFirst := true; ; isFirst = false {
		if _, err := io.ReadFull(r, head); err != nil {
			return "", err
		}
		size := int64(binary.LittleEndian.Uint32(head[9:])) - headerSize
		switch kind := head[4]; {
		case size < 0 || size > 1<<30:
			return "", fmt.Errorf("an event of %d bytes in a payload", size)
		case isFirst || kind == typeXAPrepare:
			var body bytes.Buffer
			if _, err := io.CopyN(&body, r, size); err != nil {
				return "", err
			}
			if kind == typeXAPrepare {
				return prepared(body.Bytes()), nil
			}
			if _, text, err := queryEvent(kind, body.Bytes()); kind != typeQuery || err != nil || !bytes.HasPrefix(text, []byte("XA START")) {
				return "", err
			}
		default:
			if _, err := io.CopyN(io.Discard, r, size); err != nil {
				return "", err
			}
		}
	}
}

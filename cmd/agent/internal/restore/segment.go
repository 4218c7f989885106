// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/internal/contract"
)

func damagedSegment(name string, err error) error {
	var known *contract.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, binlog.ErrUnknownType) {
		return contract.Errorf(contract.ReasonRefused, "replay segment %s: %w", name, err)
	}
	return contract.Errorf(contract.ReasonDamaged, "segment %s: %w", name, err)
}

// readEvent reads a whole event. At the end of the input it returns io.EOF, and within an event io.ErrUnexpectedEOF.
func readEvent(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(13)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[9:])
	if size < 19 || size > 1<<30 {
		return nil, fmt.Errorf("an event of %d bytes", size)
	}
	raw := make([]byte, size)
	if _, err = io.ReadFull(r, raw); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// RelayPoint is a position in the relay logs of a batch.
type RelayPoint struct {
	File   int    `json:"file"` // index of the relay log
	Offset uint64 `json:"offset"`
}

// following holds the state of a copy that the replay of a batch needs.
type following struct {
	// resumed reports whether the batch begins after the dump's position. In that case, the copy already has the transactions that were
	// prepared before the batch.
	resumed  bool
	position contract.Position
	// isAtomic is Batch.IsAtomic. isStrict reports whether the server also stores its position atomically for DDL statements.
	isAtomic, isStrict bool
	// seek holds the GTIDs of Batch.Note. found is the end of the last transaction with one of these GTIDs; nil if the
	// batch contains none of them.
	seek  map[string]bool
	gtid  string
	found *RelayPoint
}

func (f *following) isResumed() bool { return f != nil && f.resumed }

// skips reports whether a segment need not be read, because the copy has all of its events. The first segment of a file is always read,
// because later events depend on its first events.
func (f *following) skips(s *spool, segment manifest.Segment) bool {
	if !f.isResumed() || segment.File != f.position.File || segment.From == binlog.FirstOffset || segment.To > f.position.Offset || s.tracker.Offset != segment.From {
		return false
	}
	s.tracker.Offset, s.prepared.inHead = segment.To, false
	return true
}

const (
	typeMariaGTID = 162
	headerSize    = 19
)

// take processes an event of the batch. end is the offset after the event in a relay log.
func (f *following) take(raw []byte, e binlog.Event, file int, end, shift uint64) {
	if f == nil {
		return
	}
	switch {
	case e.IsXA || e.Prepared != "" || e.Finished != "":
		f.isAtomic = false
	case e.Statement != nil && !isTransactional(e.Statement):
		f.isAtomic = f.isAtomic && f.isStrict
	}
	if raw[4] == typeMariaGTID && len(raw) >= headerSize+12 {
		f.gtid = fmt.Sprintf("%d-%d-%d", binary.LittleEndian.Uint32(raw[headerSize+8:]), binary.LittleEndian.Uint32(raw[5:]), binary.LittleEndian.Uint64(raw[headerSize:]))
	}
	if e.Ends && f.seek[f.gtid] {
		if file == 0 {
			end += shift
		}
		f.found = &RelayPoint{file, end}
	}
}

// isTransactional reports whether a statement begins or ends a transaction with changes of rows.
func isTransactional(text []byte) bool {
	for _, verb := range []string{"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT ", "RELEASE SAVEPOINT "} {
		if bytes.HasPrefix(text, []byte(verb)) {
			return true
		}
	}
	return false
}

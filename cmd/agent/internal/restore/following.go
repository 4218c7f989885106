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

// RelayPoint is a place in the relay logs of a batch.
type RelayPoint struct {
	File   int    `json:"file"` // its index
	Offset uint64 `json:"offset"`
}

// following holds the state that one batch of a copy takes from those before it, and the facts that it finds in its log.
type following struct {
	// resumed: the batch does not begin at the dump's position, and the copy has the transactions that are prepared before it.
	resumed  bool
	position contract.Position
	// isAtomic is that of a Batch; isStrict: statements change definitions together with the server's note of them.
	isAtomic, isStrict bool
	// seek are GTIDs, of which found is the end of the last one in the batch; nil for none.
	seek  map[string]bool
	gtid  string
	found *RelayPoint
}

func (f *following) isResumed() bool { return f != nil && f.resumed }

// skips reports whether the copy has all of a segment, of which nothing has to be read: only the begin of a file has what its other events need.
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

// take takes an event of the batch, which ends at an offset of a relay log.
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

// isTransactional reports whether a statement is one of those that enclose rows.
func isTransactional(text []byte) bool {
	for _, verb := range []string{"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT ", "RELEASE SAVEPOINT "} {
		if bytes.HasPrefix(text, []byte(verb)) {
			return true
		}
	}
	return false
}

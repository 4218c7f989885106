// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/internal/contract"
)

// prepared records the XA transactions before a backup's position in the log. The dump lacks transactions that are prepared at the
// position, but the later log commits them.
type prepared struct {
	// head is the end of the events that begin a file: the format description and the previous GTIDs.
	head    uint64
	inHead  bool
	current [][]byte // events of the current transaction
	isXA    bool
	open    map[string][]byte
	order   map[string]int
	later   map[string]bool // prepared during the replay
}

// take processes an event. end is the offset after the event.
func (p *prepared) take(raw []byte, e binlog.Event, end uint64) {
	p.inHead = e.Format || p.inHead && !e.Opens && e.Statement == nil
	if p.inHead {
		p.head = end
	}
	switch {
	case e.Opens:
		p.current, p.isXA = [][]byte{raw}, e.IsXA
		return
	case e.IsXA:
		p.isXA = true
	case !p.isXA && !e.Ends:
		p.current = nil
	}
	if p.isXA {
		p.current = append(p.current, raw)
	}
	if e.Prepared != "" && p.isXA {
		if p.open == nil {
			p.open, p.order = map[string][]byte{}, map[string]int{}
		}
		p.order[e.Prepared] = len(p.order)
		for _, event := range p.current {
			p.open[e.Prepared] = append(p.open[e.Prepared], event...)
		}
	}
	if e.Finished != "" {
		delete(p.open, e.Finished)
	}
	if e.Ends {
		p.current, p.isXA = nil, false
	}
}

// follow processes an event of the replay. If the event ends an XA transaction that the replay has not prepared, follow returns the
// transaction's name; otherwise "".
func (p *prepared) follow(e binlog.Event) string {
	if e.Prepared != "" {
		if p.later == nil {
			p.later = map[string]bool{}
		}
		p.later[e.Prepared] = true
	}
	if e.Finished == "" {
		return ""
	}
	known := p.open[e.Finished] != nil || p.later[e.Finished]
	delete(p.open, e.Finished)
	delete(p.later, e.Finished)
	if known {
		return ""
	}
	return e.Finished
}

// lacks returns the error for a replay that would end an XA transaction which it has not prepared. The server would refuse such an event.
func (s *spool) lacks(name string, here contract.Position) error {
	b := s.plan.source.Backup
	err := contract.Errorf(contract.ReasonNotFound, "XA transaction %s of backup %s ends before %s:%d, but the archive from file %s on lacks the changes of the transaction: restore to an earlier time, or use another backup",
		name, b.ID, here.File, here.Offset, b.FirstFile())
	if s.plan.timeline.Lacks != nil {
		err = contract.Errorf(contract.ReasonNotFound, "%w: %w", err, s.plan.timeline.Lacks)
	}
	return err
}

// begin begins the replay at an offset of the binary log. If XA transactions are prepared at that offset, the relay log contains them
// instead of all earlier events.
func (s *spool) begin(offset uint64) error {
	s.from = offset
	if s.copying.isResumed() {
		s.prepared.open = nil // the copy has these transactions
	} else if len(s.prepared.open) == 0 {
		return nil
	}
	if s.dry || s.prepared.head == 0 {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.from = s.prepared.head
	if err := s.file.Truncate(int64(s.from)); err != nil { //nolint:gosec // the size of a file
		return fmt.Errorf("begin a relay log with prepared transactions: %w", err)
	}
	if _, err := s.file.Seek(int64(s.from), io.SeekStart); err != nil { //nolint:gosec // the size of a file
		return fmt.Errorf("begin a relay log with prepared transactions: %w", err)
	}
	byOrder := func(a, b string) int { return cmp.Compare(s.prepared.order[a], s.prepared.order[b]) }
	size := s.from
	for _, name := range slices.SortedFunc(maps.Keys(s.prepared.open), byOrder) {
		n, err := s.out.Write(s.prepared.open[name])
		if err != nil {
			return err
		}
		size += uint64(n) //nolint:gosec // a length
	}
	s.shift = size - offset // may wrap around; a later addition wraps back
	return nil
}

// end returns the end of the replay as an offset in the last relay log.
func (s *spool) end() uint64 {
	if s.at == 0 {
		return s.stop.Offset + s.shift
	}
	return s.stop.Offset
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// Position is a position in a cluster's log: the term and the index of an entry.
type Position = etcdmember.Position

type inspection struct {
	damage string
	last   Position
}

// furthest returns the furthest known position of this member's data.
func (s Situation) furthest() Position {
	var far Position
	for _, known := range s.Known {
		if s.identity() == (Identity{known.Cluster, known.Member}) && far.Before(known.Position) {
			far = known.Position
		}
	}
	return far
}

// outdated returns the evidence that the data is older than the member's furthest known position; "" for none. A force
// ticket accepts the loss of the entries up to that position. After that, outdated returns "" until a further position
// is known.
func (s Situation) outdated() string {
	far := s.furthest()
	if s.Data.Problem != "" || !s.Data.Last.Before(far) || s.Mark != nil && s.Mark.Waived == far {
		return ""
	}
	return fmt.Sprintf("its log ends at entry %d of term %d, but the member had entry %d of term %d", s.Data.Last.Index, s.Data.Last.Term, far.Index, far.Term)
}

// positionNote is the name of the note with the furthest position of the member's data. Its folder lives as long as the pod.
const positionNote = "position"

// known reads the known positions of the pod's data. The operator's record and a note of this pod contain these positions.
func (a *Agent) known(s *Situation) {
	files := []string{filepath.Join(a.Notes, positionNote)}
	if a.Record != "" {
		files = append(files, filepath.Join(a.Record, a.Pod[strings.LastIndex(a.Pod, "/")+1:]))
	}
	for _, file := range files {
		known, err := readKnown(file)
		switch {
		case err != nil:
			s.KnownProblem = err.Error()
		case known != nil:
			s.Known = append(s.Known, *known)
		}
	}
}

// readKnown reads a known position from a file. It returns nil if the file does not exist.
func readKnown(file string) (*etcdmember.Known, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var known etcdmember.Known
	if err == nil {
		known, err = etcdmember.ParseKnown(string(text))
	}
	if err != nil {
		return nil, fmt.Errorf("read the last known position of the data: %w", err)
	}
	return &known, nil
}

// noter follows a running server's log, and writes the last position on which the members have agreed to the note
// positionNote. Each call of note writes the position that the previous call has read, so that the data reaches the
// disk before the note.
type noter struct {
	follow        func() (agreed, last Position)
	last, pending Position
	end           Position // end of the log
}

func (n *noter) note(folder string, of Identity) error {
	next := n.pending
	var end Position
	if n.pending, end = n.follow(); n.end.Before(end) {
		n.end = end
	}
	if of.Member == "" || next == n.last || next.Index == 0 {
		return nil
	}
	known := etcdmember.Known{Cluster: of.Cluster, Member: of.Member, Position: next}
	if err := WriteDurably(filepath.Join(folder, positionNote), []byte(known.String()+"\n")); err != nil {
		return fmt.Errorf("write the position of the data: %w", err)
	}
	n.last = next
	return nil
}

// endNote is the name of the note with the end of the log at the latest start of the server. Its folder lives as long as the pod.
const endNote = "end"

func noteEnd(folder string, end Position) error {
	if err := os.WriteFile(filepath.Join(folder, endNote), fmt.Appendf(nil, "%d %d\n", end.Term, end.Index), 0o600); err != nil {
		return fmt.Errorf("write the end of the log: %w", err)
	}
	return nil
}

// readEnd returns the end of the log at the latest start; zero if it is unknown.
func readEnd(folder string) (end Position) {
	text, err := os.ReadFile(filepath.Join(folder, endNote))
	if err == nil {
		_, err = fmt.Sscan(string(text), &end.Term, &end.Index)
	}
	if err != nil {
		return Position{}
	}
	return end
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// File is the name of the notes at the root of the volume. It is outside of the data folder: a copy of another member's
// data must not change this member's promises.
const File = "d3os-mysql.json"

// format is the newest format of Notes that this agent reads.
const format = 1

// Notes identify the data of a member, and contain the member's promises.
type Notes struct {
	Format int `json:"format"`
	// Pod is the pod to which the volume belongs, as NAMESPACE/NAME.
	Pod string `json:"pod"`
	// Server is the UUID of the server that wrote the data; empty before the first data.
	Server string `json:"server,omitempty"`
	// Next is the UUID of the server that wrote the complete data in the new folder; empty after that folder has replaced the data.
	Next string `json:"next,omitempty"`
	// Ticket is the text of the last used ticket.
	Ticket string `json:"ticket,omitempty"`
	// Promised is the highest epoch that the member has promised, or whose order it has accepted. Orders of older epochs are refused.
	Promised int64 `json:"promised"`
	// Revision is the highest revision of the record in an accepted order. Orders of older revisions are refused.
	Revision int64 `json:"revision"`
}

// read reads the notes of a volume. It returns nil if there are none.
func read(root string) (*Notes, error) {
	text, err := os.ReadFile(filepath.Join(root, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	n := &Notes{}
	if err == nil {
		err = json.Unmarshal(text, n)
	}
	if err != nil {
		return nil, fmt.Errorf("read the promises in %s: %w", File, err)
	}
	if n.Format < 1 || n.Format > format {
		return nil, fmt.Errorf("read the promises in %s: format %d is unknown to this version: run the version of the operator that wrote it, or a newer one", File, n.Format)
	}
	return n, nil
}

// write replaces the notes of a volume. When it returns, the notes are on the disk.
func (v *Volume) write(next Notes) error {
	next.Format = format
	text, err := json.Marshal(next)
	if err == nil {
		err = member.WriteDurably(filepath.Join(v.Root, File), text)
	}
	if err != nil {
		return fmt.Errorf("write the promises in %s: %w", File, err)
	}
	return nil
}

// Notes returns the notes of the volume; the zero value for none.
func (v *Volume) Notes() (Notes, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, err := read(v.Root)
	if err != nil || n == nil {
		return Notes{}, err
	}
	return *n, nil
}

// Take checks the epoch and the revision of an order, and refuses an older order. Otherwise it stores both, and the ticket if there is one.
// When it returns, they are on the disk.
func (v *Volume) Take(o mysqlmember.Order, ticket string) error {
	return v.change(func(n *Notes) error {
		switch {
		case o.Epoch < 1 || o.Revision < 1:
			return contract.Errorf(contract.ReasonUsage, "the order of epoch %d and revision %d is incomplete: epoch and revision must be above zero", o.Epoch, o.Revision)
		case o.Epoch < n.Promised:
			return contract.Errorf(contract.ReasonRefused, "the order is of epoch %d, but this member has promised epoch %d", o.Epoch, n.Promised)
		case o.Revision < n.Revision:
			return contract.Errorf(contract.ReasonRefused, "the order is of revision %d, but this member has accepted revision %d", o.Revision, n.Revision)
		case ticket != "" && ticket == n.Ticket:
			return contract.Errorf(contract.ReasonRefused, "the ticket %s was used", ticket)
		}
		n.Promised, n.Revision = o.Epoch, o.Revision
		if ticket != "" {
			n.Ticket = ticket
		}
		return nil
	})
}

// change calls edit with the notes, and writes the notes if edit has changed them.
func (v *Volume) change(edit func(*Notes) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, err := read(v.Root)
	if err != nil {
		return err
	}
	next := Notes{Pod: v.Pod}
	if n != nil {
		next = *n
	}
	if next.Pod != v.Pod {
		return contract.Errorf(contract.ReasonRefused, "the volume belongs to pod %s: nothing is written to it", next.Pod)
	}
	if err := edit(&next); err != nil || n != nil && *n == next {
		return err
	}
	at("before the notes")
	if err := v.write(next); err != nil {
		return err
	}
	at("after the notes")
	return nil
}

// at is called between the writes to a volume. Tests end the process there.
var at = func(string) {}

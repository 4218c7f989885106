// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

// NotesFile is the name of the notes at the root of the volume, outside of the server's data: a copy of another member's data
// does not change what this one promised.
const NotesFile = "d3os-mysql.json"

// notesFormat is the newest format of Notes that this agent knows.
const notesFormat = 1

// Notes store what a member promised.
type Notes struct {
	Format int `json:"format"`
	// Promised is the highest epoch that was promised or that an order was taken of. Orders of older ones are refused.
	Promised int64 `json:"promised"`
	// Revision is the highest of the record that an order was taken of. Orders of older ones are refused.
	Revision int64 `json:"revision"`
}

// ReadNotes reads the notes of a volume. A volume without the file has none.
func ReadNotes(volume string) (Notes, error) {
	text, err := os.ReadFile(filepath.Join(volume, NotesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Notes{}, nil
	}
	n := Notes{}
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return Notes{}, fmt.Errorf("read the promises in %s: %w", NotesFile, err)
	}
	if n.Format < 1 || n.Format > notesFormat {
		return Notes{}, fmt.Errorf("read the promises in %s: this version does not know the format %d: run the version of the operator that wrote it, or a newer one", NotesFile, n.Format)
	}
	return n, nil
}

// take stores the epoch and the revision of an order, or refuses the order. It is on the disk when it returns.
func (n *Notes) take(volume string, o Order) error {
	switch {
	case o.Epoch < 1 || o.Revision < 1:
		return contract.Errorf(contract.ReasonUsage, "the order of epoch %d and revision %d names none", o.Epoch, o.Revision)
	case o.Epoch < n.Promised:
		return contract.Errorf(contract.ReasonRefused, "the order is of epoch %d, and this member promised epoch %d", o.Epoch, n.Promised)
	case o.Revision < n.Revision:
		return contract.Errorf(contract.ReasonRefused, "the order is of revision %d, and this member has orders of revision %d", o.Revision, n.Revision)
	case o.Epoch == n.Promised && o.Revision == n.Revision:
		return nil
	}
	next := Notes{Format: notesFormat, Promised: o.Epoch, Revision: o.Revision}
	text, err := json.Marshal(next)
	if err == nil {
		err = member.WriteDurably(filepath.Join(volume, NotesFile), text)
	}
	if err != nil {
		return fmt.Errorf("write the promises in %s: %w", NotesFile, err)
	}
	*n = next
	return nil
}

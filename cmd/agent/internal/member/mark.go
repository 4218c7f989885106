// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MarkFile is the name of the mark's file at the root of the volume.
const MarkFile = "d3os-member.json"

// markFormat is the newest format of a Mark that this agent reads.
const markFormat = 1

// Mark is the file that the agent writes on the volume to identify the owner of the data.
type Mark struct {
	// Format is the version of this structure, markFormat.
	Format int `json:"format"`
	// Pod is the pod to which the volume belongs, as NAMESPACE/NAME.
	Pod string `json:"pod"`
	// Cluster and Member are the hexadecimal IDs of the data. They are empty at first, because the server creates the IDs: the agent sets
	// them after the start that created the data.
	Cluster string `json:"cluster,omitempty"`
	Member  string `json:"member,omitempty"`
	// Ticket is the text of the last ticket that a start on this volume used. PodUID is the UID of the pod with that ticket.
	Ticket string `json:"ticket,omitempty"`
	PodUID string `json:"podUID,omitempty"`
	// Scheme is the scheme of this member's address in the member list, http or https.
	Scheme string `json:"scheme,omitempty"`
	// Token is the token of the last force ticket.
	Token string `json:"token,omitempty"`
	// Waived is the furthest known position of the data when the last force ticket was used. The ticket accepted the loss of all entries after
	// the end of the data, up to this position.
	Waived Position `json:"waived,omitzero"`
}

// started reports whether the mark names a member, whose data the server has created.
func (m *Mark) started() bool { return m != nil && m.Member != "" }

// ReadMark reads the mark of a volume. It returns nil if there is none.
func ReadMark(volume string) (*Mark, error) {
	text, err := os.ReadFile(filepath.Join(volume, MarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the mark of the volume: %w", err)
	}
	mark := &Mark{}
	if err := json.Unmarshal(text, mark); err != nil {
		return nil, fmt.Errorf("read the mark of the volume in %s: %w", MarkFile, err)
	}
	if mark.Format < 1 || mark.Format > markFormat {
		return nil, fmt.Errorf("the mark of the volume has format %d, which is unknown to this version: run the version of the operator that wrote it, or a newer one", mark.Format)
	}
	return mark, nil
}

// Write writes the mark to a volume. After a crash the volume has either the complete old mark or the complete new one.
func (m Mark) Write(volume string) error {
	m.Format = markFormat
	text, err := json.Marshal(m)
	if err == nil {
		err = WriteDurably(filepath.Join(volume, MarkFile), text)
	}
	if err != nil {
		return fmt.Errorf("write the mark of the volume: %w", err)
	}
	return nil
}

// WriteDurably replaces a file atomically. When it returns, the new file is on the disk. After a crash, the file is the old one or the new
// one.
func WriteDurably(file string, text []byte) error {
	fresh := file + ".new"
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	at("before the rename")
	if err := os.Rename(fresh, file); err != nil {
		return err
	}
	at("after the rename")
	return syncFolder(filepath.Dir(file))
}

// syncFolder makes new and renamed files of a folder durable.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

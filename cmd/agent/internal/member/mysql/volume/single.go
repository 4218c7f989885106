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

	"d3os.com/d3os-operator/internal/contract"
)

// MarkFile is the name of the mark at the root of a single server's volume. Package guard writes the mark.
const MarkFile = "d3os-data.json"

// markFormats is the number of formats of marks that this agent reads.
const markFormats = 2

// mark returns the ID in the mark of a single server's complete data; "" for none.
func (v *Volume) mark() (string, error) {
	text, err := os.ReadFile(filepath.Join(v.Root, MarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the mark of the volume: %w", err)
	}
	var m struct {
		Format                    int
		ID, ReplacedBy, Restoring string
	}
	err = json.Unmarshal(text, &m)
	if err != nil || m.Format < 1 || m.Format > markFormats || m.ReplacedBy != "" || m.Restoring != "" {
		m.ID = "" // the data of the single server is not complete
	}
	return m.ID, nil
}

// Adopt records that the data of the single server with that mark belongs to this member. It moves nothing: one write changes the owner.
// From then on, the single server's guard refuses the volume.
func (v *Volume) Adopt(mark, server, ticket string) error {
	c, err := v.Look()
	if err != nil {
		return err
	}
	if c.Kind != Single || c.Mark != mark || mark == "" {
		return contract.Errorf(contract.ReasonRefused, "adopt the data with the mark %s: the volume is %s, with the mark %q", mark, c.Kind, c.Mark)
	}
	if has, err := ServerOf(v.folder()); err != nil || has != server || server == "" {
		return errors.Join(contract.Errorf(contract.ReasonFailed, "adopt the data of server %q: the data is of server %q", server, has), err)
	}
	for _, path := range []string{filepath.Join(v.folder(), "auto.cnf"), v.folder()} {
		if err := syncOne(path); err != nil {
			return fmt.Errorf("adopt the data of one server: %w", err)
		}
	}
	return v.change(func(n *Notes) error {
		n.Server, n.Ticket = server, ticket
		return nil
	})
}

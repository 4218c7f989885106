// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
)

// definitionsFile returns the path of the file with the definitions and accounts that a source without a log had before
// the dump. To find changes, the import compares the source with this file. It cannot compare the source with the copy,
// because server versions format definitions differently.
func (m *Import) definitionsFile() string { return filepath.Join(m.folder, "definitions") }

func (m *Import) definitions(ctx context.Context) (map[string]string, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return backup.Definitions(conn)
}

// recordDefinitions stores the definitions of a source without a log before the source is dumped.
func (m *Import) recordDefinitions(ctx context.Context) error {
	if m.log != nil {
		return nil
	}
	seen, err := m.definitions(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(seen)
	if err == nil {
		err = os.WriteFile(m.definitionsFile(), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the definitions of the source: %w", err)
	}
	return nil
}

// redefined returns the objects whose definitions have changed since the dump of a source without a log. It returns none if an older
// agent made the copy: such an agent did not write the file.
func (m *Import) redefined(ctx context.Context) (names []string, err error) {
	text, err := os.ReadFile(m.definitionsFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	before := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definitions of the source before the dump: %w", err)
	}
	now, err := m.definitions(ctx)
	if err != nil {
		return nil, err
	}
	for name, definition := range now {
		if other, ok := before[name]; ok && other != definition { // the comparison of the servers finds objects that only one of them has
			names = append(names, name+" changed at the source after the dump")
		}
	}
	slices.Sort(names)
	return names, nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
)

// A restore of a new database accepts a volume only if the volume has never been used.
func TestIsTaken(t *testing.T) {
	const used, restoring = `{"format":1,"id":"a"}`, `{"format":2,"id":"a","restoring":"b"}`
	for name, c := range map[string]struct {
		mark   string
		files  []string
		record bool
		taken  bool
	}{
		"new":                               {"", nil, false, false},
		"new, with the folder lost+found":   {"", []string{"lost+found/x"}, false, false},
		"a database":                        {used, []string{"mysql/db.frm"}, false, true},
		"a database without a mark":         {"", []string{"mysql/db.frm"}, false, true},
		"any file":                          {"", []string{"a"}, false, true},
		"a server was started on it":        {used, nil, false, true},
		"an interrupted restore":            {restoring, []string{"ibdata1"}, false, false},
		"interrupted before the first file": {restoring, nil, false, false},
		"empty where data is expected":      {"", nil, true, true},
		"interrupted, but data is expected": {restoring, []string{"ibdata1"}, true, true},
		"a mark that cannot be read":        {"{", nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(file, text string) {
				assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			if c.mark != "" {
				write(filepath.Join(root, "d3os-data.json"), c.mark)
			}
			for _, file := range c.files {
				write(filepath.Join(root, "mysql", file), "")
			}
			taken, err := IsTaken(Target{Volume: root, Data: "mysql"}, guard.Record{Exists: c.record})
			if err != nil || taken != c.taken {
				t.Errorf("taken: %t, %v", taken, err)
			}
		})
	}
}

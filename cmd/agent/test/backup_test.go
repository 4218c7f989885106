// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
)

// An encrypted backup to a folder is made under load. Its restored rows are the rows at the backup's position.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s, identity, to := start(t, flavour), key(t), folder(t)
			load := s.Write(1, 4, 2*time.Millisecond)
			defer load.Stop()
			rig.Until(t, "200 transactions", func() bool { return len(load.Acks()) >= 200 })
			m, _, err := backup.Run(t.Context(), options(s, to, identity))
			load.Stop()
			assert.NilError(t, err)
			got, out, err := attempt(t.Context(), t, flavour, to, "latest", nil, identity)
			assert.NilError(t, err)
			same(t, got, s, out)
			plain, stored := m.Totals()
			t.Logf("%d rows, %d bytes, %d stored, %d transactions", m.Rows(), plain, stored, len(load.Acks()))
		})
	}
}

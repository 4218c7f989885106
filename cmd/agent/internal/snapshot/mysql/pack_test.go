// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// A changed byte anywhere proves that the backup is damaged, even if the files cannot be read before the hash of the object is known.
func TestEveryDamageConvicts(t *testing.T) {
	t.Parallel()
	folder, to := t.TempDir(), &bytes.Buffer{}
	sum := sha256.Sum256(nil)
	for _, name := range []string{"ibdata1", "mysql.ibd", "undo_001"} {
		var content []byte
		for range 16 { // it cannot be compressed, so a change of the object is one of the files
			sum = sha256.Sum256(sum[:])
			content = append(content, sum[:]...)
		}
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	sealed, err := seal.NewFramed(to, nil)
	assert.NilError(t, err)
	assert.NilError(t, pack(t.Context(), folder, sealed))
	assert.NilError(t, sealed.Close())
	whole := to.Bytes()
	at, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	source := restore.Source{Store: at, Backup: &manifest.Backup{ID: "b", Objects: []manifest.Object{sealed.Object("files.tar.zst")}}}
	step := 1 // make test tries a part of the bytes
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(whole); i += step {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1
		assert.NilError(t, at.Replace(t.Context(), manifest.Folder("b")+"files.tar.zst", damaged))
		if err := fetch(t.Context(), source, t.TempDir()); !restore.Convicts(err) {
			t.Errorf("byte %d of %d: %v", i, len(whole), err)
		}
	}
	assert.NilError(t, at.Replace(t.Context(), manifest.Folder("b")+"files.tar.zst", whole))
	assert.NilError(t, fetch(t.Context(), source, t.TempDir()))
}

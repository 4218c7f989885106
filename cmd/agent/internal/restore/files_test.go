// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/files"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// A byte of an object is changed, at any place. The restore reports that the backup is damaged, even if it fails before
// the object's hash is known.
func TestEveryDamageConvicts(t *testing.T) {
	t.Parallel()
	folder, to := t.TempDir(), &bytes.Buffer{}
	sum := sha256.Sum256(nil)
	for _, name := range []string{"ibdata1", "mysql.ibd", "undo_001"} {
		var content []byte
		for range 16 { // incompressible, so a change of the object changes a file
			sum = sha256.Sum256(sum[:])
			content = append(content, sum[:]...)
		}
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	sealed, err := seal.NewFramed(to, nil)
	assert.NilError(t, err)
	assert.NilError(t, files.Pack(t.Context(), folder, sealed))
	assert.NilError(t, sealed.Close())
	whole := to.Bytes()
	at, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	source := Source{Store: at, Backup: &manifest.Backup{ID: "b", Objects: []manifest.Object{sealed.Object("files-00000.tar.zst")}}}
	step := 1 // make test tries only some of the bytes
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(whole); i += step {
		damaged := slices.Clone(whole)
		damaged[i] ^= 1
		assert.NilError(t, at.Replace(t.Context(), manifest.Folder("b")+"files-00000.tar.zst", damaged))
		if err := source.Fetch(t.Context(), t.TempDir()); !Convicts(err) {
			t.Errorf("byte %d of %d: %v", i, len(whole), err)
		}
	}
	assert.NilError(t, at.Replace(t.Context(), manifest.Folder("b")+"files-00000.tar.zst", whole))
	assert.NilError(t, source.Fetch(t.Context(), t.TempDir()))
}

// Files that a server cannot read are refused with a reason, even if the server could load a dump.
func TestReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, refused string }{
		{"8.0.36", "8.0.36", ""}, {"8.0.36", "8.0.45", ""}, {"8.0.45", "8.0.36", "files of the newer version 8.0.45"}, {"8.0.45", "8.4.9", ""}, {"8.0.45", "9.7.4", "restore it with an image of 8.4"},
		{"8.4.9", "8.4.2", ""}, {"8.4.9", "9.7.4", ""}, {"9.6.0", "9.7.4", ""},
	} {
		p := Programs{}
		p.Version, _ = server.ParseVersion(c.to)
		err := Readable(&manifest.Backup{ID: "b", Server: manifest.Server{Version: c.from}}, p)
		if c.refused == "" {
			assert.NilError(t, err, "%s to %s", c.from, c.to)
			continue
		}
		assert.ErrorContains(t, err, c.refused)
		assert.Equal(t, contract.ReasonOf(err), contract.ReasonRefused)
	}
}

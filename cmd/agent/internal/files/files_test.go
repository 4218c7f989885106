// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
)

// A folder is written to objects of a bounded size and read back. The files are unchanged, except that files which belong to one server are
// omitted.
func TestPack(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	big := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for name, content := range map[string]string{
		"ibdata1": string(big), "shop/t.ibd": "rows", "shop/auto.cnf": "a table's", "#innodb_redo/#ib_redo1": "log", "empty/x": "",
		"auto.cnf": "id", "ca-key.pem": "key", "binlog.000001": "log", "relay.index": "log", "#ib_16384_0.dblwr": "secret", "#innodb_temp/x": "x",
	} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(from, name), []byte(content), 0o600))
	}
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(Pack(t.Context(), from, writer)) }()
	var stream bytes.Buffer
	objects, err := stores(reader, 30000, func(name string, write func(io.Writer) error) (manifest.Object, error) {
		before := stream.Len()
		err := write(&stream)
		return manifest.Object{Name: name, PlainBytes: int64(stream.Len() - before)}, err
	})
	assert.NilError(t, err)
	if len(objects) < 3 || objects[0].PlainBytes != 30000 || objects[0].Name != "files-00000.tar" || objects[1].Name != "files-00001.tar" {
		t.Errorf("%+v", objects)
	}
	text := stream.Bytes()
	assert.NilError(t, Unpack(bytes.NewReader(text), to))
	assert.NilError(t, filepath.WalkDir(to, func(path string, entry os.DirEntry, err error) error {
		name, _ := filepath.Rel(to, path)
		if err != nil || entry.IsDir() {
			return err
		}
		if !isOfData(name) {
			t.Errorf("%s is there", name)
		}
		has, _ := os.ReadFile(path)
		had, err := os.ReadFile(filepath.Join(from, name))
		if !bytes.Equal(has, had) {
			t.Errorf("%s has %d bytes of %d", name, len(has), len(had))
		}
		return err
	}))
	for _, name := range []string{"ibdata1", "shop/auto.cnf", "empty/x"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	if err := Unpack(bytes.NewReader(text[:len(text)/2]), t.TempDir()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half of the stream: %v", err)
	}
}

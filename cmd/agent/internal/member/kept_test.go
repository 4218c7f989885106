// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// The size of folders that were set aside is reported until a person removes them.
func TestKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	data := filepath.Join(root, "etcd")
	add := func(name string, mib int64) {
		path := filepath.Join(root, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		assert.NilError(t, os.WriteFile(path, nil, 0o600))
		assert.NilError(t, os.Truncate(path, mib<<20))
	}
	k := &Kept{}
	add("etcd/member/snap/db", 10)
	add("etcd.restored/member/snap/db", 10)
	assert.Equal(t, k.MiB(data), int64(0))
	assert.NilError(t, setAside(data, Situation{Data: Data{Identity: Identity{Cluster: "c", Member: "8e9e"}}}))
	assert.Equal(t, k.MiB(data), int64(10))
	add("etcd.set-aside-8e9e-1/member/wal/0.wal", 64)
	assert.Equal(t, k.MiB(data), int64(74))
	assert.NilError(t, os.RemoveAll(filepath.Join(root, "etcd.set-aside-8e9e-0")))
	assert.Equal(t, k.MiB(data), int64(64))
	assert.NilError(t, os.RemoveAll(filepath.Join(root, "etcd.set-aside-8e9e-1")))
	assert.Equal(t, k.MiB(data), int64(0))
	assert.Equal(t, k.MiB(filepath.Join(root, "none", "etcd")), int64(0))
}

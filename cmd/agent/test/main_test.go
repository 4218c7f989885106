// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package test tests the agent with real database servers, folders and buckets, and with faults of all of them.
package test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"filippo.io/age"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

func TestMain(m *testing.M) { rig.Main(m) }

// both lists the flavours to test. MariaDB also stands for MySQL 5.7. Tests that need MySQL run only in `make verify`.
var both = []string{server.MariaDB, server.MySQL}

// key returns a pair of keys.
func key(t testing.TB) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	assert.NilError(t, err)
	return identity
}

func options(s *rig.Server, to store.Store, identity *age.X25519Identity) backup.Options {
	o := backup.Options{Options: draft.Options{Store: to}, Server: s.Options(), MaxLockWait: 2 * time.Minute, Tries: 3, DumpProgram: s.DumpProgram()}
	if identity != nil {
		o.Recipients, o.Keys = []age.Recipient{identity.Recipient()}, []string{identity.Recipient().String()}
	}
	return o
}

// folder returns a store in a new folder.
func folder(t testing.TB) *store.Folder {
	t.Helper()
	f, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	return f
}

// attempt restores a backup to a new volume. It returns the rows that a server reads there.
func attempt(ctx context.Context, t testing.TB, flavour string, from store.Store, id string, until *restore.Until, identities ...age.Identity) (rig.Rows, restore.Outcome, error) {
	t.Helper()
	entry, err := catalogue.Find(ctx, from, id)
	if err != nil {
		return nil, restore.Outcome{}, err
	}
	volume, err := os.MkdirTemp(t.TempDir(), "")
	assert.NilError(t, err)
	defer os.RemoveAll(volume)
	programs := rig.Programs(t, flavour) //nolint:contextcheck // it uses the context of the test
	source := restore.Source{Store: from, Backup: entry.Manifest, Identities: identities}
	out, err := restore.Restore(ctx, source, programs, restore.Target{Volume: volume, Data: "mysql", RootPassword: "root", Until: until})
	if err != nil {
		return nil, out, err
	}
	i := &restore.Instance{Programs: programs, Data: filepath.Join(volume, "mysql")}
	assert.NilError(t, i.Start(ctx))
	defer i.Kill()
	o := i.Options()
	o.Password = "root"
	rows, err := rig.Read(ctx, o)
	assert.NilError(t, err)
	return rows, out, nil
}

// same makes the test fail unless the rows equal the rows that the server's binary log yields at a position.
func same(t testing.TB, got rig.Rows, s *rig.Server, out restore.Outcome) {
	t.Helper()
	want := s.At(*out.Position)
	if diff := rig.Differ(got, want); diff != "" {
		t.Fatalf("the restored rows are not those of position %v:\n%s", *out.Position, diff)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

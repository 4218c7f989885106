// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	folder, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	return map[string]store.Store{"folder": folder, "bucket": rig.NewBucket(t).Open(t)}
}

func content(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.New(rand.NewSource(int64(size))).Read(b) // the size determines the content
	return b
}

// Both kinds of stores fulfil the documentation of Store.
func TestStore(t *testing.T) {
	for kind, s := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			for _, size := range []int{0, 1, 5<<20 - 1, 5 << 20, 5<<20 + 1, 12 << 20} {
				assert.NilError(t, s.Put(ctx, "a/b/object", bytes.NewReader(content(size))))
				got, err := store.ReadAll(ctx, s, "a/b/object")
				if err != nil || !bytes.Equal(got, content(size)) {
					t.Fatalf("read an object of %d bytes: %d bytes, %v", size, len(got), err)
				}
				if info, err := s.Stat(ctx, "a/b/object"); err != nil || info.Size != int64(size) {
					t.Fatalf("%d bytes: %+v %v", size, info, err)
				}
			}
			assert.NilError(t, s.Create(ctx, "a/once", []byte("one")))
			if err := s.Create(ctx, "a/once", []byte("two")); !errors.Is(err, store.ErrExists) {
				t.Errorf("creating an existing object: %v", err)
			}
			if got, err := store.ReadAll(ctx, s, "a/once"); err != nil || string(got) != "one" {
				t.Errorf("%q %v", got, err)
			}
			for _, size := range []int{100, 12 << 20} { // one object is smaller than a part, the other is larger
				broken := io.MultiReader(bytes.NewReader(content(size)), iotest.ErrReader(io.ErrNoProgress))
				if err := s.Put(ctx, "a/broken", broken); !errors.Is(err, io.ErrNoProgress) {
					t.Errorf("writing content that ends early: %v", err)
				}
			}
			if _, err := s.Stat(ctx, "a/broken"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an incomplete object exists: %v", err)
			}
			if _, err := s.Get(ctx, "a/nothing", 0); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("read a missing object: %v", err)
			}
			if left, err := s.Sweep(ctx, ""); err != nil || len(left) > 0 {
				t.Errorf("leftovers: %v %v", left, err)
			}
			infos, err := s.List(ctx, "a/")
			if err != nil || len(infos) != 2 {
				t.Errorf("%v %v", infos, err)
			}
			for _, name := range []string{"a/once", "a/b/object", "a/nothing"} {
				if err := s.Delete(ctx, name); err != nil {
					t.Error(err)
				}
			}
			if infos, err := s.List(ctx, ""); err != nil || len(infos) > 0 {
				t.Errorf("%v %v", infos, err)
			}
		})
	}
}

// Sweep finds and removes the leftovers of a killed upload, and nothing else.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	s, err := store.NewFolder(root)
	assert.NilError(t, err)
	assert.NilError(t, s.Replace(t.Context(), "a/x/good", []byte("1")))
	for _, name := range []string{"a/x/.partial-object-1", "a/y/.partial-object-2", "b/.partial-object-3"} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		assert.NilError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	names, err := s.Sweep(t.Context(), "a/")
	if err != nil || len(names) != 2 {
		t.Errorf("%v %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(root, "a/y")); err == nil {
		t.Error("Sweep has left the empty folder")
	}
	if _, err := os.Stat(filepath.Join(root, "b/.partial-object-3")); err != nil {
		t.Error("Sweep has removed a file outside of the prefix")
	}
}

// Connections to the bucket break often. If Put reports success, the object exists.
func TestBucketThatBreaks(t *testing.T) {
	b := rig.NewBucket(t)
	s := b.Open(t)
	for seed := range int64(rig.Seeds(6, 60)) {
		b.Break(rig.Sometimes(chance.New(t, seed), 0.25, rig.Cut, rig.LostAnswer, rig.Busy))
		err := s.Put(t.Context(), "object", bytes.NewReader(content(11<<20+int(seed))))
		createErr := s.Create(t.Context(), "small", []byte{byte(seed)})
		b.Break(nil)
		if err == nil {
			b.Break(rig.Sometimes(chance.New(t, seed), 0.25, rig.Cut, rig.Busy))
			got, err := store.ReadAll(t.Context(), s, "object")
			b.Break(nil)
			if err == nil && !bytes.Equal(got, content(11<<20+int(seed))) {
				t.Fatalf("seed %d: the read %d bytes differ from the written bytes", seed, len(got))
			}
		}
		if got, err := store.ReadAll(t.Context(), s, "small"); createErr == nil && (err != nil || !bytes.Equal(got, []byte{byte(seed)})) {
			t.Fatalf("seed %d: Create succeeded, but a read returns %v %v", seed, got, err)
		}
		for _, name := range []string{"object", "small"} {
			assert.NilError(t, s.Delete(t.Context(), name))
		}
	}
}

// If a connection breaks while an object is read, the reader reconnects at the same offset.
func TestReadingContinues(t *testing.T) {
	b := rig.NewBucket(t)
	s := b.Open(t)
	assert.NilError(t, s.Put(t.Context(), "object", bytes.NewReader(content(12<<20))))
	r, err := s.Get(t.Context(), "object", 0)
	assert.NilError(t, err)
	defer r.Close()
	got := make([]byte, 1<<20)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	again := 0
	b.Break(func(*http.Request) rig.Fault { again++; return rig.None })
	b.CloseClientConnections()
	rest, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(slices.Concat(got, rest), content(12<<20)) {
		t.Fatalf("%d bytes, %v", len(got)+len(rest), err)
	}
	if again == 0 {
		t.Error("the connection did not break")
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store stores objects by name, in an S3 bucket or in a folder. Writes are atomic: an incomplete object never appears. Errors have
// a reason of package contract.
package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound reports that the store has no object of that name.
var ErrNotFound = errors.New("there is no such object")

// ErrExists reports that the store already has an object of that name.
var ErrExists = errors.New("the object exists already")

// Info describes an object.
type Info struct {
	// Name is relative to the store's prefix.
	Name     string
	Size     int64
	Modified time.Time
}

// Store stores objects. It is safe for concurrent use.
type Store interface {
	// Put writes an object with the whole content. If it fails, either no object or the complete object exists.
	Put(ctx context.Context, name string, content io.Reader) error
	// Create writes a small object. It fails with ErrExists if an object of that name exists.
	Create(ctx context.Context, name string, content []byte) error
	// Replace writes a small object, and replaces an existing object of that name.
	Replace(ctx context.Context, name string, content []byte) error
	// Get opens an object at an offset. It fails with ErrNotFound if the object does not exist.
	Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
	// Stat describes an object. It fails with ErrNotFound if the object does not exist.
	Stat(ctx context.Context, name string) (Info, error)
	// List describes the objects whose names begin with a prefix, in any order.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, name string) error
	// Sweep removes the leftovers of interrupted Puts under a prefix, and returns the names of their objects.
	Sweep(ctx context.Context, prefix string) ([]string, error)
	// SweepIf acts like Sweep, but only on the objects for whose names the function may returns true.
	SweepIf(ctx context.Context, prefix string, may func(name string) bool) ([]string, error)
	// String names the store in messages, without secrets.
	String() string
}

// ReadAll reads a small object (at most 256 MiB).
func ReadAll(ctx context.Context, s Store, name string) ([]byte, error) {
	content, err := s.Get(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(content, 256<<20))
	return text, errors.Join(err, content.Close())
}

func reader(content []byte) io.Reader { return bytes.NewReader(content) }

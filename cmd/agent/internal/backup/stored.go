// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
)

// put seals what write writes, into an object of the backup.
func (r *run) put(ctx context.Context, name string, write func(io.Writer) error) (manifest.Object, error) {
	name += seal.Suffix(r.Recipients)
	pr, pw := io.Pipe()
	stored := make(chan error, 1)
	go func() {
		err := r.Store.Put(ctx, manifest.Folder(r.manifest.ID)+name, pr)
		_ = pr.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // ends writing when the store has failed
		stored <- err
	}()
	sealed, err := seal.NewWriter(pw, r.Recipients, 2)
	if err == nil {
		if err = write(sealed); err == nil {
			err = sealed.Close()
		}
	}
	_ = pw.CloseWithError(err) // nil: the end
	if storeErr := <-stored; storeErr != nil && (err == nil || errors.Is(err, io.ErrClosedPipe)) {
		err = storeErr
	}
	if err != nil {
		return manifest.Object{}, err
	}
	return sealed.Object(name), nil
}

// finish writes the manifest, when all that it names is in the store and no other agent can have taken it away.
func (r *run) finish(ctx context.Context) error {
	if err := r.holds(); err != nil {
		return err
	}
	if err := r.present(ctx); err != nil {
		return err
	}
	var err error
	if r.manifest.ServerTime, err = r.conn.Now(); err != nil {
		return err
	}
	r.manifest.Completed = time.Now().UTC().Truncate(time.Second)
	text, err := manifest.Encode(&r.manifest)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if err := r.Store.Create(ctx, manifest.Folder(r.manifest.ID)+manifest.Name, text); err != nil {
		return fmt.Errorf("write the manifest of backup %s: %w", r.manifest.ID, err)
	}
	// An agent that was frozen since its last look may have lost the lock, and its objects to another one's Sweep.
	return r.present(ctx)
}

// present compares the objects in the store with the manifest.
func (r *run) present(ctx context.Context) error {
	for _, o := range r.manifest.Objects {
		info, err := r.Store.Stat(ctx, manifest.Folder(r.manifest.ID)+o.Name)
		if err != nil {
			return err
		}
		if info.Size != o.Bytes {
			return contract.Errorf(contract.ReasonDamaged, "object %s of backup %s has %d bytes in %s, but %d were written", o.Name, r.manifest.ID, info.Size, r.Store, o.Bytes)
		}
	}
	return nil
}

// cleanUp removes what a failed backup has written, its manifest first. What it cannot remove, the next run does.
func (r *run) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	folder := manifest.Folder(r.manifest.ID)
	if r.Store.Delete(ctx, folder+manifest.Name) != nil {
		return
	}
	if found, err := r.Store.List(ctx, folder); err == nil {
		for _, info := range found {
			_ = r.Store.Delete(ctx, info.Name)
		}
	}
	_, _ = r.Store.Sweep(ctx, folder)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package draft writes the files of a new backup: first the objects, then the manifest. Objects without a manifest do not count as a
// backup.
package draft

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/cmd/agent/internal/writer"
	"d3os.com/d3os-operator/internal/contract"
)

// Options holds the source, the destination and the encryption keys of a backup.
type Options struct {
	Store store.Store
	// Recipients and Keys are the public keys for the encryption, parsed and as text. If they are empty, the backup is not encrypted.
	Recipients []age.Recipient
	Keys       []string
	// Source names the data, as in manifest.Backup.
	Source string
	// Writer identifies the owner of the data among all clusters, as in manifest.Backup, such as a UID. If Writer is empty, a store with
	// data of other writers is not refused.
	Writer string
	// Annotations are stored in the manifest.
	Annotations map[string]string
	// Progress receives the number of bytes written before compression; it may be nil.
	Progress func(contract.Progress)
}

// Draft is a backup in progress.
type Draft struct {
	Options
	// Manifest is the manifest to write. The caller sets its remaining fields.
	Manifest manifest.Backup
	// InFrames makes seal.NewFramed compress objects on all processors.
	InFrames bool
}

// Begin returns a draft and writes nothing to the store. The draft's ID sorts after the IDs of all stored backups, even if the clock was
// set back: otherwise the newest backup would look older.
func Begin(ctx context.Context, o Options) (*Draft, error) {
	infos, err := o.Store.List(ctx, manifest.Backups)
	if err != nil {
		return nil, err
	}
	newest := ""
	for _, info := range infos {
		if id, _, _ := strings.Cut(strings.TrimPrefix(info.Name, manifest.Backups), "/"); manifest.IsID(id) {
			newest = max(newest, id)
		}
	}
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	started := time.Now().UTC().Truncate(time.Second)
	return &Draft{Options: o, Manifest: manifest.Backup{Format: manifest.Format, ID: manifest.IDAfter(newest, started, random), Started: started, Source: o.Source,
		Writer: o.Writer, Recipients: o.Keys, Annotations: o.Annotations}}, nil
}

// claimFor is the time after which a claim expires if it is not renewed.
const claimFor = 2 * time.Minute

// Claim prevents other clusters from writing to this folder of the store until done is called.
func (o Options) Claim(ctx context.Context) (done func(), err error) {
	if o.Writer == "" {
		return func() {}, nil
	}
	lease, err := writer.Take(ctx, o.Store, writer.Backup, o.Writer, claimFor)
	if err != nil {
		return nil, err
	}
	return lease.Keep(ctx, func(error) {}), nil // after the loss of a claim, the next Claim fails
}

// Put seals the output of write into an object of the backup, and returns its manifest entry.
func (d *Draft) Put(ctx context.Context, name string, write func(io.Writer) error) (manifest.Object, error) {
	name += seal.Suffix(d.Recipients)
	pr, pw := io.Pipe()
	stored := make(chan error, 1)
	go func() {
		err := d.Store.Put(ctx, manifest.Folder(d.Manifest.ID)+name, pr)
		_ = pr.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // unblocks write after the store has failed
		stored <- err
	}()
	sealed, err := d.seal(pw)
	if err == nil {
		if err = write(d.counted(sealed)); err == nil {
			err = sealed.Close()
		}
	}
	_ = pw.CloseWithError(err) // nil marks the end of the content
	if storeErr := <-stored; storeErr != nil && (err == nil || errors.Is(err, io.ErrClosedPipe)) {
		err = storeErr
	}
	if err != nil {
		return manifest.Object{}, err
	}
	return sealed.Object(name), nil
}

func (d *Draft) seal(to io.Writer) (*seal.Writer, error) {
	if d.InFrames {
		return seal.NewFramed(to, d.Recipients)
	}
	return seal.NewWriter(to, d.Recipients, 2)
}

// Present compares the objects in the store with the manifest.
func (d *Draft) Present(ctx context.Context) error {
	for _, o := range d.Manifest.Objects {
		info, err := d.Store.Stat(ctx, manifest.Folder(d.Manifest.ID)+o.Name)
		if err != nil {
			return err
		}
		if info.Size != o.Bytes {
			return contract.Errorf(contract.ReasonDamaged, "object %s of backup %s has %d bytes in %s, but %d were written", o.Name, d.Manifest.ID, info.Size, d.Store, o.Bytes)
		}
	}
	return nil
}

// Commit writes the manifest after it has checked that the store has all objects of the manifest. While this agent was frozen, another
// agent may have removed the objects as leftovers: Commit therefore checks the objects again after the write.
func (d *Draft) Commit(ctx context.Context) error {
	if err := d.Present(ctx); err != nil {
		return err
	}
	d.Manifest.Completed = time.Now().UTC().Truncate(time.Second)
	if warning := catalogue.Shrunk(ctx, d.Store, d.Manifest.Rows()); warning != "" {
		d.Manifest.Warnings = append(d.Manifest.Warnings, warning)
	}
	text, err := manifest.Encode(&d.Manifest)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if err := d.Store.Create(ctx, manifest.Folder(d.Manifest.ID)+manifest.Name, text); err != nil {
		return fmt.Errorf("write the manifest of backup %s: %w", d.Manifest.ID, err)
	}
	return d.Present(ctx)
}

// Discard removes a failed backup: first the manifest, then the objects. A later run removes objects that Discard could not remove.
func (d *Draft) Discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	folder := manifest.Folder(d.Manifest.ID)
	if d.Store.Delete(ctx, folder+manifest.Name) != nil {
		return
	}
	if found, err := d.Store.List(ctx, folder); err == nil {
		for _, info := range found {
			_ = d.Store.Delete(ctx, info.Name)
		}
	}
	_, _ = d.Store.Sweep(ctx, folder)
}

func (d *Draft) counted(w io.Writer) io.Writer {
	if d.Progress == nil {
		return w
	}
	return &progress{w: w, report: d.Progress}
}

// progress reports the number of written bytes every two seconds.
type progress struct {
	w      io.Writer
	report func(contract.Progress)
	n      int64
	last   time.Time
}

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	if now := time.Now(); now.Sub(p.last) > 2*time.Second {
		p.last = now
		p.report(contract.Progress{Progress: "dump", Bytes: p.n})
	}
	return n, err
}

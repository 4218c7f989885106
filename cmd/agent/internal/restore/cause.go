// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"io"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// ofBackup is a failure which proves that the backup's objects were changed after they were written.
type ofBackup struct{ error }

func (e ofBackup) Unwrap() error { return e.error }

// ofArchive is a failure of the archive's replay. It proves nothing about the backup.
type ofArchive struct{ error }

func (e ofArchive) Unwrap() error { return e.error }

// OfArchive marks a failure as a failure of the archive's replay.
func OfArchive(err error) error { return ofArchive{err} }

// Convicts reports whether a failure proves that the backup is damaged. Other failures prove nothing: they are
// temporary, or are caused by the volume, the memory, the archive, the image, the key, the clock or the store.
func Convicts(err error) bool {
	var e ofBackup
	return errors.As(err, &e)
}

// IsOfArchive reports whether the archive is the cause of a failure.
func IsOfArchive(err error) bool {
	var e ofArchive
	return errors.As(err, &e)
}

// damaged classifies an error of an object's Reader. It reads the object again. If the second read fails in the same way, the backup is
// damaged: faulty connections and memory do not change the same bits twice.
func (s Source) damaged(ctx context.Context, o manifest.Object, err error) error {
	if contract.ReasonOf(err) != contract.ReasonDamaged {
		return err
	}
	r, done, openErr := s.open(ctx, o)
	if openErr == nil {
		_, openErr = io.Copy(io.Discard, r)
		done()
	}
	switch {
	case openErr == nil:
		return contract.Errorf(contract.ReasonStoreUnreachable, "%s of backup %s was read twice, and only one of the two results matches the manifest: %s", o.Name, s.Backup.ID, err)
	case contract.ReasonOf(openErr) == contract.ReasonDamaged && !errors.Is(openErr, errMissing):
		return ofBackup{err}
	}
	return openErr
}

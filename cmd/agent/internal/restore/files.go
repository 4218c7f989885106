// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"d3os.com/d3os-operator/cmd/agent/internal/files"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Fetch writes the files of a backup to a folder, and verifies the checksums of the backup's objects. After a failure, the folder is
// incomplete.
func (s Source) Fetch(ctx context.Context, folder string) error {
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() {
		err := s.copyFiles(ctx, writer)
		_ = writer.CloseWithError(err) // nil marks the end of the stream
		result <- err
	}()
	err := files.Unpack(reader, folder)
	_ = reader.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if sourceErr := <-result; sourceErr != nil && !errors.Is(sourceErr, io.ErrClosedPipe) {
		return sourceErr // an error of the store, or of the object's content
	}
	if err != nil {
		return fmt.Errorf("restore backup %s to %s: %w", s.Backup.ID, folder, err)
	}
	return nil
}

func (s Source) copyFiles(ctx context.Context, to io.Writer) error {
	for _, o := range s.Backup.Objects {
		if !files.IsPart(o) {
			continue
		}
		if err := s.Copy(ctx, o, to); err != nil {
			return err
		}
	}
	return nil
}

// spare is the space for a server's logs and temporary tables.
const spare = 256 << 20

// HasRoom returns an error unless a volume has enough free space for the files of the backup.
func (s Source) HasRoom(volume string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(volume, &stat); err != nil {
		return fmt.Errorf("read the free space of %s: %w", volume, err)
	}
	plain, _ := s.Backup.Totals()
	free := int64(stat.Bavail) * stat.Bsize //nolint:gosec // the size of a volume fits into int64
	if need := plain + spare; free < need {
		return contract.Errorf(contract.ReasonRefused, "backup %s needs %d MiB, but the volume has %d MiB of room: nothing was restored: raise storage.size", s.Backup.ID, need>>20, free>>20)
	}
	return nil
}

// Readable refuses a server that cannot read the files of a backup. A newer server of the same major version can read
// them, and so can the next series with long-term support. But a MySQL 8.0 server cannot read the files of a newer 8.0
// version. (A dump can be loaded by any newer server.)
func Readable(b *manifest.Backup, p Programs) error {
	from, _ := server.ParseVersion(b.Server.Version)
	has := p.Version
	switch {
	case from.Major == 8 && from.Minor == 0 && has.Major == 8 && has.Minor == 0 && from.Patch > has.Patch:
		return contract.Errorf(contract.ReasonRefused, "backup %s has the files of the newer version %s, but the image has version %s: use an image of that version, or a newer one", b.ID, from.Text, has.Text)
	case from.Major == 8 && from.Minor < 4 && has.Major > 8:
		return contract.Errorf(contract.ReasonRefused, "backup %s has the files of version %s, which %s cannot read: restore it with an image of 8.4, and upgrade the database afterwards", b.ID, from.Text, has.Text)
	}
	return nil
}

// place writes the files of the backup to the data directory, starts a server on them, and sets the variables of SET PERSIST. It returns
// warnings.
func (s Source) place(ctx context.Context, i *Instance) (warnings []string, err error) {
	if err := s.HasRoom(i.Data); err != nil {
		return nil, err
	}
	if err := s.Fetch(ctx, i.Data); err != nil {
		return nil, err
	}
	if err := i.Enter(ctx); err != nil {
		return nil, err
	}
	if err := i.inZone(ctx, s.Backup); err != nil {
		return nil, err
	}
	for _, o := range s.Backup.Objects {
		if !hasStatements(o) {
			continue
		}
		more, err := s.loadStatements(ctx, o, i.Options())
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, more...)
	}
	return warnings, nil
}

// Enter starts the server on data with unknown passwords, and creates the temporary account. After that, the instance logs in with this
// account.
func (i *Instance) Enter(ctx context.Context, more ...string) error {
	folder, err := os.MkdirTemp("", "agent-")
	if err != nil {
		return fmt.Errorf("make a folder for the server's init file: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "init.sql")
	password, err := server.InitFile(file)
	if err != nil {
		return err
	}
	i.As(server.TemporaryAccount, password)
	return i.Start(ctx, append([]string{"--init-file=" + file}, more...)...)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Source is a backup with its store and the keys.
type Source struct {
	Store      store.Store
	Backup     *manifest.Backup
	Identities []age.Identity
	// Progress is called with the number of loaded bytes; it may be nil.
	Progress func(contract.Progress)
}

// Opens returns an error unless the private keys (Identities) decrypt all objects of the backup. It reads only the beginning of each object.
func (s Source) Opens(ctx context.Context) error {
	for _, o := range s.Backup.Objects {
		_, done, err := s.open(ctx, o)
		if err != nil {
			return s.damaged(ctx, o, err)
		}
		done()
	}
	return nil
}

// open opens an object. The caller calls done after the last read.
func (s Source) open(ctx context.Context, o manifest.Object) (r io.Reader, done func(), err error) {
	content, err := s.Store.Get(ctx, manifest.Folder(s.Backup.ID)+o.Name, 0)
	if err != nil {
		return nil, nil, missing(err)
	}
	sealed, err := seal.NewReader(content, o, s.Identities)
	if err != nil {
		return nil, nil, errors.Join(err, content.Close())
	}
	return sealed, func() {
		sealed.Close()
		_ = content.Close() // the error of Close does not matter after reading
	}, nil
}

// errMissing reports that an object does not exist although a manifest names it.
var errMissing = errors.New("an object that the manifest names is missing")

// missing returns the error for an object that the store lacks although a manifest names it.
func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return contract.Errorf(contract.ReasonDamaged, "%w: %w", errMissing, err)
	}
	return err
}

// Load executes all objects of the backup except its accounts on a server, with the client program of the image. It fails with Damaged if
// an object differs from the manifest: the caller must then discard the server. It returns a warning for each refused object that contains
// no data.
func (s Source) Load(ctx context.Context, to server.Options, p Programs) (warnings []string, err error) {
	total, _ := s.Backup.Totals()
	progress := &loaded{total: total, report: s.Progress}
	for _, o := range s.Backup.Objects {
		if isAccounts(o) {
			continue // the statements of this object run one by one
		}
		if hasStatements(o) {
			more, err := s.loadStatements(ctx, o, to)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, more...)
			continue
		}
		if err := s.load(ctx, o, to, p, progress); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

func (s Source) load(ctx context.Context, o manifest.Object, to server.Options, p Programs, progress *loaded) error {
	r, done, err := s.open(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	from, _ := server.ParseVersion(s.Backup.Server.Version)
	cmd, err := to.Command(ctx, p.Client, "--init-command="+s.session(p.Version), "--comments", "--binary-mode", "--default-character-set=utf8mb4", "--max-allowed-packet=1G")
	if err != nil {
		return err
	}
	defer server.Started(cmd)
	words := &server.Tail{}
	cmd.Stderr = words
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return contract.Errorf(contract.ReasonFailed, "load %s: %w", o.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return contract.Errorf(contract.ReasonFailed, "run %s: %w", p.Client, err)
	}
	server.Started(cmd)
	_, copyErr := io.CopyBuffer(struct{ io.Writer }{stdin}, struct{ io.Reader }{rewritten(io.TeeReader(r, progress), from, p.Version)}, make([]byte, 256<<10))
	err = errors.Join(stdin.Close(), cmd.Wait())
	var known *contract.Error
	switch {
	case errors.As(copyErr, &known):
		return s.damaged(ctx, o, copyErr) // an error of the store, or of the object's content
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || words.String() != "" && strings.Contains(words.String(), "ERROR"):
		// A damaged statement may fail before the object's hash is known.
		if _, readErr := io.Copy(io.Discard, r); contract.ReasonOf(readErr) == contract.ReasonDamaged {
			return s.damaged(ctx, o, readErr)
		}
		return contract.Errorf(contract.ReasonLoadFailed, "load %s of backup %s: %s: %w", o.Name, s.Backup.ID, server.Explain(words.String()), errors.Join(err, copyErr))
	case copyErr != nil:
		return contract.Errorf(contract.ReasonLoadFailed, "load %s of backup %s: %w", o.Name, s.Backup.ID, copyErr)
	}
	return nil
}

// session returns the first statements of the client's session. They set the empty SQL mode, as during the backup, and the time of the
// backup. Without that time, the server would drop an event that was not yet due when the backup was made.
func (s Source) session(v server.Version) string {
	at := s.Backup.Started
	if !s.Backup.ServerTime.IsZero() {
		at = s.Backup.ServerTime.Add(s.Backup.Started.Sub(s.Backup.Completed)).Add(-time.Second)
	}
	statement := fmt.Sprintf("SET SESSION sql_mode = '', autocommit = 1, timestamp = %d", at.Unix())
	if v.Flavour == server.MariaDB {
		statement += ", check_constraint_checks = 0" // rows that are older than a constraint may violate it
	}
	if from, _ := server.ParseVersion(s.Backup.Server.Version); v.AtLeast(8, 0, 11) && !from.AtLeast(8, 0, 0) {
		// The old server omits the collation if it is the default of the character set. MySQL 8.0 has other defaults.
		statement += ", default_collation_for_utf8mb4 = utf8mb4_general_ci"
	}
	return statement
}

type loaded struct {
	report   func(contract.Progress)
	n, total int64
	last     time.Time
}

func (l *loaded) Write(p []byte) (int, error) {
	l.n += int64(len(p))
	if now := time.Now(); l.report != nil && now.Sub(l.last) > 2*time.Second {
		l.last = now
		l.report(contract.Progress{Progress: "load", Bytes: l.n, TotalBytes: l.total})
	}
	return len(p), nil
}

// Copy writes the content of one object of the backup. It fails with Damaged if the content differs from the manifest: the caller must then
// discard the output.
func (s Source) Copy(ctx context.Context, o manifest.Object, to io.Writer) error {
	r, done, err := s.open(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	total, _ := s.Backup.Totals()
	progress := &loaded{total: total, report: s.Progress}
	if _, err := io.CopyBuffer(struct{ io.Writer }{to}, io.TeeReader(r, progress), make([]byte, 256<<10)); err != nil {
		var known *contract.Error
		if errors.As(err, &known) {
			return s.damaged(ctx, o, err)
		}
		return fmt.Errorf("write %s of backup %s: %w", o.Name, s.Backup.ID, err)
	}
	return nil
}

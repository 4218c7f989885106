// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importer creates the database of a new volume from a running server. It dumps the server, loads the dump, and applies the
// server's binary log until the user requests the cut-over. Then it compares the copy with the source, and allows a server to start on the
// volume.
//
// All files are in the folder d3os-import of the volume: the dump and the log as a store of backups, and the state of the copy. After a
// kill, the import continues from these files. The import changes nothing on the source.
package importer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// folder is the name of the folder on the volume.
const folder = "d3os-import"

// Options selects the source and the volume of an import.
type Options struct {
	Server server.Options
	// Schemas are the schemas to copy. If it is empty, the import copies all schemas except the server's own.
	Schemas []string
	// SkipAccounts are names of accounts that the copy does not keep.
	SkipAccounts []string
	Target       restore.Target
	Programs     restore.Programs
	DumpProgram  string
	// MaxLockWait limits the time for which the dump waits for its lock of all tables, as in a backup.
	MaxLockWait time.Duration
	// Interval is the time between two queries of the source.
	Interval time.Duration
	// CutOver reports whether the user requests the cut-over.
	CutOver func() bool
	// Accepted returns the loss that the user has accepted; it may be nil.
	Accepted func() string
	// Report is called when the state changes; it may be nil.
	Report func(contract.Import)
}

// Import creates a database from a running server.
type Import struct {
	Options

	mu     sync.Mutex
	state  contract.Import
	folder string
	store  *store.Folder
	lock   *os.File
	name   string // of the locks on the source
	log    *log
	backup *manifest.Backup
	copied *restore.Copy
	tables int
	rows   int64
	// identity is the ID of the copied server. seen is the ID of the server that answered the last query.
	identity, seen string
}

// Remove removes the files of a finished import from a volume.
func Remove(volume string) error { return os.RemoveAll(filepath.Join(volume, folder)) }

// Run makes the copy and returns when the copy is the database of the volume. It retries after temporary failures. It begins another copy
// if the import cannot continue the present one (restore.ErrBeginAgain).
func Run(ctx context.Context, o Options) (*Import, error) {
	m := &Import{Options: o, folder: filepath.Join(o.Target.Volume, folder)}
	random := [6]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	m.name = fmt.Sprintf("d3os-import-%x", random)
	m.state = contract.Import{Phase: contract.ImportConnecting, Begun: 1}
	var err error
	if m.lock, err = restore.Lock(ctx, o.Target.Volume); err != nil {
		return m, err
	}
	defer m.lock.Close()
	for wait := time.Second; ; wait = min(2*wait, 15*time.Second) {
		began := time.Now()
		err := m.attempt(ctx)
		if m.isLost(err) {
			err = m.takeAsIs(ctx)
		}
		switch {
		case err == nil: // the import is complete
			return m, Remove(o.Target.Volume)
		case ctx.Err() != nil:
			return m, err
		case errors.Is(err, restore.ErrBeginAgain):
			if err = m.beginAgain(ctx, err); err == nil {
				continue
			}
		}
		if !passes(err) && !errors.Is(err, errReplaced) {
			return m, err
		}
		m.failed(err)
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		if !pause(ctx, wait) {
			return m, err
		}
	}
}

// passes reports whether a failure is temporary.
func passes(err error) bool {
	return slices.Contains([]contract.Reason{
		contract.ReasonServerUnreachable, contract.ReasonBusy, contract.ReasonDumpFailed, contract.ReasonLockWait, contract.ReasonNotFound,
	}, contract.ReasonOf(err))
}

// firstDelay and longestDelay bound the wait before another copy is begun.
const firstDelay, longestDelay = 10 * time.Second, 10 * time.Minute

// pause waits for a time. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// State returns the progress of the import.
func (m *Import) State() contract.Import {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *Import) update(change func(*contract.Import)) {
	m.mu.Lock()
	change(&m.state)
	s := m.state
	m.mu.Unlock()
	if m.Report != nil {
		m.Report(s)
	}
}

func (m *Import) enter(phase contract.ImportPhase) {
	m.update(func(s *contract.Import) { s.Phase, s.Reason, s.Message, s.Bytes, s.TotalBytes = phase, "", "", 0, 0 })
}

// failed records a temporary failure in the state.
func (m *Import) failed(err error) {
	m.update(func(s *contract.Import) {
		s.Reason, s.Message, s.CutOver = contract.ReasonOf(err), err.Error(), m.CutOver()
		switch {
		case errors.Is(err, errReplaced):
			s.Phase = contract.ImportRefused
		case s.Reason == contract.ReasonServerUnreachable && m.identity != "" && s.CutOver:
			s.Message += ". If its data is lost, " + m.consent()
		}
	})
}

// discard removes the copy. It removes the copy's state first, so that an interrupted removal does not look like a copy.
func (m *Import) discard(why string) error {
	if err := os.Remove(m.stateFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(m.folder); err != nil {
		return fmt.Errorf("remove the leftovers of an import: %w", err)
	}
	m.update(func(s *contract.Import) {
		*s = contract.Import{Phase: contract.ImportConnecting, Server: s.Server, Begun: s.Begun + 1, Again: why}
	})
	return nil
}

func (m *Import) stateFile() string { return filepath.Join(m.folder, "state.json") }

// attempt continues the import until it fails or is complete.
func (m *Import) attempt(ctx context.Context) (err error) {
	if err := errors.Join(m.sameSource(), m.readIdentity()); err != nil {
		return err
	}
	source, err := m.look(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(m.folder, "store"), 0o700); err != nil {
		return fmt.Errorf("make the folder of the import: %w", err)
	}
	if err := m.recordSource(); err != nil {
		return err
	}
	if m.store, err = store.NewFolder(filepath.Join(m.folder, "store")); err != nil {
		return err
	}
	if m.log = source; m.log != nil {
		stop := m.log.follow(ctx, m)
		defer stop()
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	defer m.copied.Close(ctx)
	return m.keep(ctx)
}

// open opens the copy on the volume, or creates it. The caller closes the copy.
func (m *Import) open(ctx context.Context) (err error) {
	if m.backup, err = m.dumped(ctx); err == nil {
		err = m.recordIdentity()
	}
	if err != nil {
		return err
	}
	s := restore.Source{Store: m.store, Backup: m.backup, Progress: m.progress}
	if m.copied, err = restore.NewCopy(ctx, s, m.Programs, m.Target, m.lock, m.stateFile(), m.Schemas); err != nil {
		return err
	}
	loaded, err := m.copied.ReadState()
	if err == nil && !loaded {
		m.enter(contract.ImportLoading)
		err = m.copied.Load(ctx, guard.ImportPrefix+m.Server.Address)
	}
	if err != nil {
		m.copied.Close(ctx)
	}
	return err
}

func (m *Import) progress(p contract.Progress) {
	m.update(func(s *contract.Import) { s.Bytes, s.TotalBytes = p.Bytes, p.TotalBytes })
}

// dumped returns the dump on the volume. If there is none, it makes one.
func (m *Import) dumped(ctx context.Context) (*manifest.Backup, error) {
	entries, err := catalogue.Backups(ctx, m.store)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 && entries[0].Err == nil {
		return entries[0].Manifest, nil
	}
	m.enter(contract.ImportDumping)
	if err := m.recordDefinitions(ctx); err != nil {
		return nil, err
	}
	return m.dump(ctx)
}

// Result adds a description of the copied data to the result of the command.
func (m *Import) Result(r *contract.Result) {
	r.Server = m.State().Server
	if m.copied == nil {
		return
	}
	r.ID, r.Position, r.Transactions, r.Warnings = m.copied.Backup, m.copied.Position, m.copied.Transactions, m.copied.Warnings
	r.Tables, r.Rows = m.tables, m.rows
}

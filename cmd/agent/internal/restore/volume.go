// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// Target is a volume to which a backup is restored, with the intended use of the database.
type Target struct {
	// Volume is the root folder of the volume. Data is the folder in it with the data.
	Volume, Data string
	// Arguments are additional arguments of the server.
	Arguments []string
	// IsScratch reports whether the restore only checks the backup, so that no client ever uses the database. In that case, its server gets
	// the backup's settings instead of the configuration file.
	IsScratch bool
	// RootPassword becomes the password of root@localhost. Restored accounts keep their passwords.
	RootPassword string
	// Account is an account whose password becomes AccountPassword; "" for none. If the backup lacks the account, the restore creates it
	// with all rights on the restored databases.
	Account, AccountPassword string
	// Until is the end of the replay of the archive; nil for no replay.
	Until *Until
	// Batch limits the bytes of the archive in one batch of the replay; 0 means 512 MiB. A batch may be larger by one file of the binary
	// log.
	Batch uint64
	// Reached is called at each stage of the restore (contract.StageReplay ...); it may be nil.
	Reached func(stage string)
}

func (t Target) reached(stage string) {
	if t.Reached != nil {
		t.Reached(stage)
	}
}

// IsTaken reports whether a new database must not be restored to a volume: the volume has or had data, or the record expects data. The
// files of an interrupted restore do not count as data.
func IsTaken(t Target, record guard.Record) (bool, error) {
	if record.Exists {
		return true, nil
	}
	volume, err := guard.ReadVolume(t.Volume, t.Data)
	if err != nil || volume.Restoring() {
		return false, err
	}
	full, err := used(filepath.Join(t.Volume, t.Data))
	if err != nil {
		return false, fmt.Errorf("read the volume: %w", err)
	}
	return full || volume.Mark != nil, nil
}

// Outcome is the result of a restore.
type Outcome struct {
	Tables       int
	Rows         int64
	Transactions int64
	RestoredTo   time.Time
	Position     *contract.Position
	Later        *contract.Later // nil if the later transactions are unknown
	// IsChecked reports whether the backup was loaded and matches its manifest, even if the restore failed afterwards.
	IsChecked bool
	// Warnings list parts that the restored database lacks, such as rights on dropped tables, and differences in the database's behaviour.
	Warnings []string
}

// Validate fails if a restore cannot succeed for reasons that are known without a volume. It returns the plan of the replay; nil for none.
func Validate(ctx context.Context, s Source, p Programs, until *Until) (plan *Plan, err error) {
	if s.Backup.Base == manifest.Files {
		return nil, contract.Errorf(contract.ReasonRefused, "backup %s is a copy of the files of a MySQLCluster's member: give it as spec.restoreFrom of a new MySQLCluster", s.Backup.ID)
	}
	if err := Compatible(s, p); err != nil {
		return nil, err
	}
	if s.Backup.Base == manifest.Physical {
		if err := Readable(s.Backup, p); err != nil {
			return nil, err
		}
	}
	if until != nil {
		if plan, err = MakePlan(ctx, s, *until); err != nil {
			return nil, ofArchive{err}
		}
	}
	if err := s.Opens(ctx); err != nil || plan == nil {
		return plan, err
	}
	if err := plan.opens(ctx); err != nil {
		return nil, ofArchive{err}
	}
	if err := plan.locate(ctx); err != nil {
		return nil, ofArchive{err}
	}
	return plan, nil
}

// Restore creates the database of a backup on a volume. Until it succeeds, a mark on the volume prevents every server from starting there.
// An interrupted restore is repeated from the beginning. A volume with any other content is refused.
func Restore(ctx context.Context, s Source, p Programs, t Target) (out Outcome, err error) {
	plan, err := Validate(ctx, s, p, t.Until) // nothing was written yet
	if err != nil {
		return out, err
	}
	settings, err := Configure(ctx, s.Backup, p, t.Arguments, t.IsScratch)
	if err != nil {
		return out, err
	}
	lock, err := Lock(ctx, t.Volume)
	if err != nil {
		return out, err
	}
	defer lock.Close()
	volume, err := claim(t, s.Backup.ID)
	if err != nil {
		return out, err
	}
	i := &Instance{Programs: p, Data: filepath.Join(t.Volume, t.Data), More: t.Arguments, Lock: lock, Settings: settings}
	defer i.Kill()
	if out, err = build(ctx, s, i, t, plan); err != nil {
		return out, err
	}
	out.Warnings = append(settings.Warnings, out.Warnings...)
	// Flush the server's data to the disk before the mark changes.
	if err := snapshot.Flush(t.Volume); err != nil {
		return out, err
	}
	// After this, a server may start on the volume.
	if err := volume.Restored(t.Volume, p.Version.Text); err != nil {
		return out, fmt.Errorf("restore backup %s: %w", s.Backup.ID, err)
	}
	if plan == nil {
		// Without an archive, the later transactions are unknown. That is no failure of the restore.
		out.Later, _ = Beyond(ctx, s)
	}
	return out, nil
}

// Lock waits until no other process restores to the volume. Child processes inherit the lock: a server that outlives its agent must not
// write into the data of the next restore.
func Lock(ctx context.Context, volume string) (*os.File, error) {
	file, err := os.Open(volume)
	if err != nil {
		return nil, fmt.Errorf("open volume %s: %w", volume, err)
	}
	for end := time.Now().Add(45 * time.Second); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return file, nil
		case ctx.Err() != nil || !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock volume %s: %w", volume, err), file.Close(), ctx.Err())
		case time.Now().After(end):
			return nil, errors.Join(contract.Errorf(contract.ReasonBusy, "another restore uses volume %s: wait until that restore ends", volume), file.Close())
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Compatible refuses a server that may be unable to read the backup.
func Compatible(s Source, p Programs) error {
	from, _ := server.ParseVersion(s.Backup.Server.Version)
	if from.Flavour != p.Version.Flavour {
		return contract.Errorf(contract.ReasonRefused, "backup %s is of %s %s, but the image has %s %s: use an image of the same kind", s.Backup.ID, from.Flavour, from.Text, p.Version.Flavour, p.Version.Text)
	}
	if from.Major > p.Version.Major || from.Major == p.Version.Major && from.Minor > p.Version.Minor {
		return contract.Errorf(contract.ReasonRefused, "backup %s is of the newer version %s, but the image has version %s: use an image of that version, or a newer one", s.Backup.ID, from.Text, p.Version.Text)
	}
	return nil
}

// claim marks a volume as being restored. It empties a volume with an interrupted restore, and refuses a volume with any other data.
func claim(t Target, id string) (guard.Volume, error) {
	volume, err := guard.ReadVolume(t.Volume, t.Data)
	if err != nil {
		return volume, err
	}
	folder := filepath.Join(t.Volume, t.Data)
	if !volume.Restoring() {
		full, err := used(folder)
		if err != nil {
			return volume, fmt.Errorf("read folder %s: %w", folder, err)
		}
		if full || volume.Mark != nil {
			return volume, contract.Errorf(contract.ReasonNotEmpty, "%s is not empty, or held a database before: a restore needs an empty volume, and was not begun", t.Volume)
		}
	}
	if volume, err = volume.BeginRestore(t.Volume, id); err != nil {
		return volume, fmt.Errorf("mark %s as being restored: %w", t.Volume, err)
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return volume, fmt.Errorf("make %s: %w", folder, err)
	}
	return volume, Empty(folder)
}

func build(ctx context.Context, s Source, i *Instance, t Target, plan *Plan) (out Outcome, err error) {
	begin := s.fill
	if s.Backup.Base == manifest.Physical {
		begin = s.place
	}
	if out.Warnings, err = begin(ctx, i); err != nil {
		return out, err
	}
	out.Position = s.Backup.Position
	rows := s.Backup.Tables
	if plan != nil && plan.Transactions() {
		// The manifest contains the numbers of rows at the backup's position, not at the end of the replay.
		if err := check(ctx, i, s, rows, &out); err != nil {
			return out, err
		}
		rows, out.IsChecked = nil, true
		if err := errors.Join(i.keepMemory(ctx), i.Stop(ctx)); err != nil {
			return out, err
		}
		t.reached(contract.StageReplay)
		if err := plan.Replay(ctx, i, &out, t.Batch); err != nil {
			return out, ofArchive{err}
		}
	}
	t.reached(contract.StageCheck)
	if err := check(ctx, i, s, rows, &out); err != nil {
		return out, err
	}
	out.IsChecked = true
	if err := secure(ctx, i, t, s.Backup.TemporaryAccounts); err != nil {
		return out, err
	}
	return out, i.Stop(ctx)
}

// fill creates a database from the backup's dump and accounts, and returns warnings. The server still runs when fill returns.
func (s Source) fill(ctx context.Context, i *Instance) ([]string, error) {
	if err := i.Init(ctx); err != nil {
		return nil, err
	}
	if err := i.Start(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(i.inZone(ctx, s.Backup), i.bare(ctx)); err != nil {
		return nil, err
	}
	warnings, err := s.Load(ctx, i.Options(), i.Programs)
	if err != nil {
		return nil, err
	}
	refused, err := s.loadAccounts(ctx, i)
	if err != nil {
		return nil, err
	}
	return append(warnings, refused...), i.admit(ctx)
}

func check(ctx context.Context, i *Instance, s Source, rows map[string]int64, out *Outcome) error {
	checker, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer checker.Close()
	counter, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer counter.Close()
	out.Tables, out.Rows, err = Check(checker, counter, s.Backup, rows)
	return err
}

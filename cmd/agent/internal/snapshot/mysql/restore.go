// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Restore writes the data of a backup to the empty volume of the first member of a new database. The data appears atomically, after all
// checksums were verified and the archive was replayed up to until (nil: no replay). The member uses the data when the operator allows the
// member to begin the database.
func Restore(ctx context.Context, s restore.Source, p restore.Programs, v *volume.Volume, until *restore.Until) (out restore.Outcome, err error) {
	if err := fits(ctx, s, p); err != nil {
		return out, err
	}
	r := replayed{source: s, programs: p}
	if err := r.prepare(ctx, until, false); err != nil {
		return out, err
	}
	lock, err := v.Lock(ctx)
	if err != nil {
		return out, err
	}
	defer lock.Close()
	if may, err := v.MayRestore(); !may || err != nil { // another restore may have had the lock before
		return out, err
	}
	if err := os.RemoveAll(v.Restoring()); err != nil {
		return out, fmt.Errorf("remove the leftovers of an earlier restore: %w", err)
	}
	if err := s.HasRoom(v.Root); err != nil {
		return out, err
	}
	if err := os.Mkdir(v.Restoring(), 0o750); err != nil {
		return out, fmt.Errorf("make a folder for the restore: %w", err)
	}
	if err := s.Fetch(ctx, v.Restoring()); err != nil {
		return out, errors.Join(err, os.RemoveAll(v.Restoring()))
	}
	at("fetched")
	if r.plan != nil {
		r.lock = lock // servers inherit the lock: a server that outlives this process blocks the next restore
		if err := r.replay(ctx, v.Restoring(), &out, nil); err != nil {
			return out, errors.Join(err, os.RemoveAll(v.Restoring()))
		}
	}
	at("replayed")
	return out, v.Restore(s.Backup.ID)
}

// at is called between the steps of a restore. Tests end a process there.
var at = func(string) {}

// fits refuses a backup on which the image's server cannot start. It writes nothing.
func fits(ctx context.Context, s restore.Source, p restore.Programs) error {
	b := s.Backup
	if b.Base != manifest.Files || b.Server.Flavour != server.MySQL {
		return contract.Errorf(contract.ReasonRefused, "backup %s of %s %s has no files of a member: give the folder of a MySQLCluster's backups. The backup of one server is restored to one server of a DataService (replica: 1), which can then become several members",
			b.ID, b.Server.Flavour, b.Server.Version)
	}
	if err := restore.Compatible(s, p); err != nil {
		return err
	}
	has, err := p.Configured(ctx, nil)
	if err != nil {
		return err
	}
	for _, name := range []string{"lower_case_table_names", server.PageSize} {
		if had := b.Server.Variables[name]; had != "" && !server.SameSetting(has[name], had) {
			return contract.Errorf(contract.ReasonRefused, "backup %s is of a server with %s=%s, but this server is configured with %s and cannot read the files: set the variable to the value of the backup", b.ID, name, had, has[name])
		}
	}
	return s.Opens(ctx)
}

// Verify restores a backup to a new folder, starts a server on it, and checks the tables against the manifest. Then it replays the archive
// up to until (nil: no replay). It keeps the folder.
func Verify(ctx context.Context, s restore.Source, p restore.Programs, folder string, more []string, until *restore.Until) (out restore.Outcome, err error) {
	if err := restore.Compatible(s, p); err != nil {
		return out, err
	}
	r := replayed{source: s, programs: p, more: more}
	if err := r.prepare(ctx, until, true); err != nil {
		return out, err
	}
	if err := s.HasRoom(filepath.Dir(folder)); err != nil {
		return out, err
	}
	if err := os.Mkdir(folder, 0o750); err != nil {
		return out, fmt.Errorf("make a folder for the check: %w", err)
	}
	if err := s.Fetch(ctx, folder); err != nil {
		return out, err
	}
	out.Position = s.Backup.Position
	i := r.instance(folder)
	err = clone.On(ctx, i, func(c *server.Conn) error { return r.check(ctx, c, i, s.Backup.Tables, &out) })
	if out.IsChecked = err == nil; err != nil || r.plan == nil {
		return out, err
	}
	return out, r.replay(ctx, folder, &out, func(c *server.Conn, i *restore.Instance) error { return r.check(ctx, c, i, nil, &out) })
}

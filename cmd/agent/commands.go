// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/writer"
	"d3os.com/d3os-operator/internal/contract"
)

// commands maps the name of each command that works on data to its function.
var commands = map[string]func([]string) int{"backup": backupServer, "list": listStore, "prune": pruneStore, "restore": restoreVolume, "verify": verifyBackup, "archive": archiveLog, "import": importServer,
	"fence": fenceServer}

func backupServer(arguments []string) int {
	if len(arguments) > 0 && clusters[arguments[0]].backup != nil {
		return clusters[arguments[0]].backup(arguments[1:])
	}
	c := newConfig("backup")
	c.server()
	c.writes()
	lockWait := c.Duration("max-lock-wait", 10*time.Second, "maximum time for which the dump waits for its lock of all tables, and other statements wait for the dump")
	scratch := c.String("scratch", "", "folder with room for the whole database. With this flag, the backup copies the files of a MySQL server through the folder if possible, and makes a dump otherwise. Without it, the backup is a dump")
	more := c.configured()
	var skip list
	c.Var(&skip, "skip-account", "name of an account that a restored database does not keep, because the operator creates it there; may be given several times")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		login, err := c.login()
		if err != nil {
			return err
		}
		recipients, err := c.publicKeys()
		if err != nil {
			return err
		}
		program, err := server.Find("mysqldump", "mariadb-dump")
		if err != nil {
			return err
		}
		copying, err := c.copies(ctx, *scratch, *more)
		if err != nil {
			return err
		}
		to, err := c.open(ctx)
		if err != nil {
			return err
		}
		made, removed, err := backup.Run(ctx, backup.Options{
			Options: draft.Options{Store: to, Recipients: recipients, Keys: c.recipients, Source: c.source, Writer: c.writer, Progress: progress},
			Server:  login, Copy: copying, SkipAccounts: append(skip, login.User), MaxLockWait: *lockWait, Tries: 3, DumpProgram: program})
		result.Removed = removed
		if err == nil {
			describe(result, made)
		}
		return err
	})
}

// copies returns the settings of a backup that copies files through a scratch folder. It returns nil if scratch is "".
func (c *config) copies(ctx context.Context, scratch string, more list) (*backup.Copy, error) {
	if scratch == "" {
		return nil, nil
	}
	scratch, err := filepath.Abs(scratch) // a database server changes its working directory, so paths must be absolute
	if err != nil {
		return nil, contract.Errorf(contract.ReasonUsage, "--scratch: %w", err)
	}
	programs, err := restore.FindServer(ctx)
	programs.Config = c.serverConfig
	return &backup.Copy{Programs: programs, Scratch: scratch, Arguments: more}, err
}

func describe(result *contract.Result, b *manifest.Backup) {
	result.ID, result.Server, result.Position, result.Tables, result.Rows, result.Warnings = b.ID, b.Server.Version, b.Position, len(b.Tables)+len(b.Shards), b.Rows(), b.Warnings
	result.Revision = b.Revision
	result.Bytes, result.StoredBytes = b.Totals()
}

func listStore(arguments []string) int {
	c := newConfig("list")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		from, err := c.open(ctx)
		if err != nil {
			return err
		}
		entries, err := catalogue.Backups(ctx, from)
		if err != nil {
			return err
		}
		for i := range entries {
			result.Backups = append(result.Backups, entries[i].Describe())
		}
		heads, err := binlog.Heads(ctx, from)
		if err != nil {
			return err
		}
		for _, head := range heads {
			timeline, err := binlog.Read(ctx, from, head, "")
			if err != nil {
				return err
			}
			result.Timelines = append(result.Timelines, timeline.Describe())
		}
		return nil
	})
}

func pruneStore(arguments []string) int {
	c := newConfig("prune")
	var rule catalogue.Rule
	c.IntVar(&rule.Keep, "keep", 0, "number of the newest good backups to keep; 0: any number")
	c.DurationVar(&rule.KeepFor, "keep-for", 0, "age at which a backup may be removed, such as 720h; 0: age does not count")
	c.IntVar(&rule.AtLeast, "at-least", 3, "number of good backups to keep regardless of their age")
	var former list
	c.Var(&former, "former", "id of a former resource whose verified backups may be removed, too, or "+catalogue.Unnamed+" for backups without a writer; may be given several times. Without it, all verified backups of resources other than --writer are kept")
	pitr := c.Duration("point-in-time", 0, "age up to which any point in time can be restored; 0: as far back as backups are kept")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if rule.Keep == 0 && rule.KeepFor == 0 {
			return contract.Errorf(contract.ReasonUsage, "give --keep or --keep-for")
		}
		if min(rule.Keep, rule.AtLeast) < 0 || min(rule.KeepFor, *pitr) < 0 {
			return contract.Errorf(contract.ReasonUsage, "--keep, --keep-for, --at-least and --point-in-time must not be negative")
		}
		if slices.Contains(former, "") {
			return contract.Errorf(contract.ReasonUsage, "--former must not be empty: give the writer that `agent list` shows, or %s", catalogue.Unnamed)
		}
		from, err := c.open(ctx)
		if err != nil {
			return err
		}
		if err := writer.Check(ctx, from, c.writer); err != nil {
			return err
		}
		rule.PointInTime, rule.Writer, rule.Former = *pitr, c.writer, former
		result.Removed, err = catalogue.Prune(ctx, from, rule, time.Now())
		return err
	})
}

func verifyBackup(arguments []string) int {
	c := newConfig("verify")
	id := c.String("backup", "latest", "the backup's ID")
	scratch := c.String("scratch", "", "folder with room for the whole database; the files made there are removed at the end")
	more := c.configured()
	end := c.ends()
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if *scratch == "" {
			return contract.Errorf(contract.ReasonUsage, "--scratch is required")
		}
		until, err := end()
		if err != nil {
			return err
		}
		err = c.check(ctx, result, *id, restore.Target{Volume: *scratch, Arguments: *more, Until: until})
		if until != nil && restore.IsOfArchive(err) && !result.Verified {
			// An unusable archive proves nothing about the backup, so the backup is checked without the archive.
			err = errors.Join(err, c.check(ctx, result, *id, restore.Target{Volume: *scratch, Arguments: *more}))
		}
		return errors.Join(err, c.verdict(ctx, result, err))
	})
}

// check restores a backup to a new folder in the target's volume, and then removes the folder.
func (c *config) check(ctx context.Context, result *contract.Result, id string, target restore.Target) (err error) {
	scratch, err := filepath.Abs(target.Volume) // a database server changes its working directory, so paths must be absolute
	if err != nil {
		return contract.Errorf(contract.ReasonUsage, "--scratch: %w", err)
	}
	if target.Volume, err = os.MkdirTemp(scratch, "verify-"); err != nil {
		return fmt.Errorf("make a folder in %s: %w", scratch, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(target.Volume)) }()
	target.Data, target.IsScratch = "mysql", true
	return c.restore(ctx, result, id, target)
}

// verdict stores the result of a verification next to the backup. It writes nothing if the verification failed for a reason that proves
// nothing about the backup.
func (c *config) verdict(ctx context.Context, result *contract.Result, err error) error {
	convicted := restore.Convicts(err)
	if result.ID == "" || !result.Verified && !convicted {
		return nil
	}
	v := manifest.Verification{Format: manifest.Format, Time: time.Now().UTC().Truncate(time.Second), OK: !convicted, Damaged: convicted}
	if convicted {
		v.Message = err.Error()
	}
	text, encodeErr := manifest.Encode(v)
	if encodeErr != nil {
		return encodeErr
	}
	to, openErr := c.open(ctx)
	if openErr != nil {
		return openErr
	}
	return to.Replace(ctx, manifest.Folder(result.ID)+manifest.Verified, text)
}

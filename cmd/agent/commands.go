// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// commands that work on data.
var commands = map[string]func([]string) int{"backup": backupServer, "list": listStore, "prune": pruneStore, "restore": restoreVolume, "verify": verifyBackup, "archive": archiveLog}

func backupServer(arguments []string) int {
	c := newConfig("backup")
	c.server()
	c.writes()
	lockWait := c.Duration("max-lock-wait", 10*time.Second, "how long the dump may wait for its lock of all tables, and others for the dump")
	var skip list
	c.Var(&skip, "skip-account", "name of an account that is not saved; may be given several times")
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
		to, err := c.open(ctx)
		if err != nil {
			return err
		}
		made, removed, err := backup.Run(ctx, backup.Options{Server: login, Store: to, Recipients: recipients, Keys: c.recipients, Source: c.source,
			SkipAccounts: append(skip, login.User), MaxLockWait: *lockWait, Tries: 3, DumpProgram: program, Progress: progress})
		result.Removed = removed
		if err == nil {
			describe(result, made)
		}
		return err
	})
}

func describe(result *contract.Result, b *manifest.Backup) {
	result.ID, result.Server, result.Position, result.Tables, result.Rows, result.Warnings = b.ID, b.Server.Version, b.Position, len(b.Tables), b.Rows(), b.Warnings
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
	c.DurationVar(&rule.KeepFor, "keep-for", 0, "age of a backup from which on it may go, such as 720h; 0: any age")
	c.IntVar(&rule.AtLeast, "at-least", 3, "number of good backups that stay however old they are")
	pitr := c.Duration("point-in-time", 0, "how far back any point in time is to be reachable; 0: as far as backups are kept")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if rule.Keep == 0 && rule.KeepFor == 0 {
			return contract.Errorf(contract.ReasonUsage, "give --keep or --keep-for")
		}
		from, err := c.open(ctx)
		if err != nil {
			return err
		}
		rule.PointInTime = *pitr
		result.Removed, err = catalogue.Prune(ctx, from, rule, time.Now())
		return err
	})
}

// backup opens the backup that a restore reads: for "latest" and a time, the newest one before it.
func (c *config) backup(ctx context.Context, id string, until *restore.Until) (restore.Source, error) {
	identities, err := privateKeys()
	if err != nil {
		return restore.Source{}, err
	}
	from, err := c.open(ctx)
	if err != nil {
		return restore.Source{}, err
	}
	find := func() (*catalogue.Entry, error) { return catalogue.Find(ctx, from, id) }
	if id == "latest" && until != nil && !until.Time.IsZero() {
		find = func() (*catalogue.Entry, error) { return catalogue.FindBefore(ctx, from, until.Time) }
	}
	entry, err := find()
	if err != nil {
		return restore.Source{}, err
	}
	return restore.Source{Store: from, Backup: entry.Manifest, Identities: identities, Progress: progress}, nil
}

// ends adds the flags that say where a replay ends.
func (c *config) ends() func() (*restore.Until, error) {
	moment := c.String("to-time", "", "replay the archive up to this time, such as 2026-11-20T12:00:00Z; or 'latest'")
	position := c.String("to-position", "", "replay the archive up to this position, FILE:OFFSET")
	return func() (*restore.Until, error) {
		switch {
		case *moment != "" && *position != "":
			return nil, contract.Errorf(contract.ReasonUsage, "give either --to-time or --to-position")
		case *moment == "latest":
			return &restore.Until{}, nil
		case *moment != "":
			at, err := time.Parse(time.RFC3339Nano, *moment)
			if err != nil {
				return nil, contract.Errorf(contract.ReasonUsage, "--to-time must be a time such as '2026-11-20T12:00:00Z', or 'latest'")
			}
			return &restore.Until{Time: at}, nil
		case *position != "":
			file, offset, _ := strings.Cut(*position, ":")
			n, err := strconv.ParseUint(offset, 10, 64)
			if err != nil {
				return nil, contract.Errorf(contract.ReasonUsage, "--to-position must be such as 'binlog.000002:1234'")
			}
			return &restore.Until{Position: &contract.Position{File: file, Offset: n}}, nil
		}
		return nil, nil
	}
}

func restoreVolume(arguments []string) int {
	c := newConfig("restore")
	id := c.String("backup", "latest", "the backup's ID")
	target := restore.Target{}
	c.StringVar(&target.Volume, "volume", "", "root of the empty volume")
	c.StringVar(&target.Data, "data", "mysql", "folder of the data within the volume")
	var more list
	c.Var(&more, "server-option", "option that the server gets while it loads; may be given several times")
	birth := c.Bool("birth", false, "succeed without a restore where the volume holds a database or has held one, or --record expects one")
	expected := c.String("record", "", "folder with the operator's record, for --birth")
	validate := c.Bool("validate", false, "only look whether the restore can succeed: read the store, write nothing")
	stages := c.String("stages", "", "folder in which a file tells of each stage: replaying, checking")
	end := c.ends()
	return c.command(arguments, func(ctx context.Context, result *contract.Result) (err error) {
		if target.Until, err = end(); err != nil {
			return err
		}
		if *validate {
			return c.validate(ctx, result, *id, target.Until)
		}
		if target.Volume == "" {
			return contract.Errorf(contract.ReasonUsage, "--volume is required")
		}
		if *stages != "" {
			target.Reached = tellStages(*stages)
		}
		if *birth {
			if taken, err := isTaken(target, *expected); taken || err != nil {
				return err
			}
		}
		if target.RootPassword, err = secret("AGENT_ROOT_PASSWORD"); err != nil {
			return err
		}
		if target.Account, err = secret("AGENT_ACCOUNT"); err != nil {
			return err
		}
		if target.AccountPassword, err = secret("AGENT_ACCOUNT_PASSWORD"); err != nil {
			return err
		}
		target.Arguments = more
		return c.restore(ctx, result, *id, target)
	})
}

func isTaken(target restore.Target, folder string) (bool, error) {
	record := guard.Record{}
	if folder != "" {
		var err error
		if record, err = guard.ReadRecord(folder); err != nil {
			return false, err
		}
	}
	return restore.IsTaken(target, record)
}

// tellStages makes a file for each stage, which probes look for.
func tellStages(folder string) func(stage string) {
	return func(stage string) {
		progress(contract.Progress{Progress: stage})
		if err := os.WriteFile(filepath.Join(folder, stage), nil, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "error: tell of the stage:", err) // the restore does not depend on it
		}
	}
}

// validate looks whether a restore can succeed, and says what it would restore.
func (c *config) validate(ctx context.Context, result *contract.Result, id string, until *restore.Until) error {
	programs, err := restore.FindPrograms(ctx)
	if err != nil {
		return err
	}
	source, err := c.backup(ctx, id, until)
	if err != nil {
		return err
	}
	describe(result, source.Backup)
	_, err = restore.Validate(ctx, source, programs, until)
	return err
}

func (c *config) restore(ctx context.Context, result *contract.Result, id string, target restore.Target) error {
	programs, err := restore.FindPrograms(ctx)
	if err != nil {
		return err
	}
	source, err := c.backup(ctx, id, target.Until)
	if err != nil {
		return err
	}
	describe(result, source.Backup)
	out, err := restore.Restore(ctx, source, programs, target)
	if err != nil {
		return err
	}
	result.Tables, result.Rows, result.Transactions, result.Position, result.Later = out.Tables, out.Rows, out.Transactions, out.Position, out.Later
	if !out.RestoredTo.IsZero() {
		result.RestoredTo = &out.RestoredTo
	}
	return nil
}

func verifyBackup(arguments []string) int {
	c := newConfig("verify")
	id := c.String("backup", "latest", "the backup's ID")
	scratch := c.String("scratch", "", "folder with room for the whole database; what is made there is removed")
	end := c.ends()
	return c.command(arguments, func(ctx context.Context, result *contract.Result) (err error) {
		if *scratch == "" {
			return contract.Errorf(contract.ReasonUsage, "--scratch is required")
		}
		until, err := end()
		if err != nil {
			return err
		}
		volume, err := os.MkdirTemp(*scratch, "verify-")
		if err != nil {
			return fmt.Errorf("make a folder in %s: %w", *scratch, err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(volume)) }()
		err = c.restore(ctx, result, *id, restore.Target{Volume: volume, Data: "mysql", Until: until})
		return errors.Join(err, c.verdict(ctx, result, err))
	})
}

// verdict keeps the result of a verification beside the backup, unless it says nothing of the backup.
func (c *config) verdict(ctx context.Context, result *contract.Result, err error) error {
	reason := contract.ReasonOf(err)
	if err != nil && reason != contract.ReasonDamaged && reason != contract.ReasonMismatch && reason != contract.ReasonLoadFailed || result.ID == "" {
		return nil
	}
	v := manifest.Verification{Format: manifest.Format, Time: time.Now().UTC().Truncate(time.Second), OK: err == nil}
	if err != nil {
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

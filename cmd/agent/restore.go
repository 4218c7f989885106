// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/internal/contract"
)

// backup opens the backup for a restore or a check. For "latest", a check reads the newest backup regardless of earlier checks. A restore
// reads the newest undamaged backup of its writer; with a time, the newest before that time.
func (c *config) backup(ctx context.Context, id string, until *restore.Until, isCheck bool) (restore.Source, error) {
	identities, err := privateKeys()
	if err != nil {
		return restore.Source{}, err
	}
	from, err := c.open(ctx)
	if err != nil {
		return restore.Source{}, err
	}
	find := func() (*catalogue.Entry, error) { return catalogue.Find(ctx, from, id) }
	switch {
	case id != "latest":
	case until != nil && !until.Time.IsZero():
		find = func() (*catalogue.Entry, error) { return catalogue.FindBefore(ctx, from, c.writer, until.Time) }
	case !isCheck:
		find = func() (*catalogue.Entry, error) { return catalogue.FindLatest(ctx, from, c.writer) }
	}
	entry, err := find()
	if err != nil {
		return restore.Source{}, err
	}
	if entry.Note != "" {
		entry.Manifest.Warnings = append(entry.Manifest.Warnings, entry.Note)
	}
	return restore.Source{Store: from, Backup: entry.Manifest, Identities: identities, Progress: progress}, nil
}

// reads opens a backup as the method backup does, for a command that reads all of it. Prune keeps the backup until the
// command ends.
func (c *config) reads(ctx context.Context, id string, until *restore.Until, isCheck bool) (restore.Source, error) {
	source, err := c.backup(ctx, id, until, isCheck)
	if err != nil {
		return source, err
	}
	done, err := catalogue.Announce(ctx, source.Store, source.Backup.ID, time.Now())
	if err == nil {
		c.atEnd = append(c.atEnd, done)
	}
	return source, err
}

// ends adds the flags that select the end of a replay. The returned function returns the selected end; nil for no replay.
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
	if len(arguments) > 0 && clusters[arguments[0]].restore != nil {
		return clusters[arguments[0]].restore(arguments[1:])
	}
	c := newConfig("restore")
	id := c.String("backup", "latest", "the backup's ID")
	target := restore.Target{}
	c.StringVar(&target.Volume, "volume", "", "root of the empty volume")
	c.StringVar(&target.Data, "data", "mysql", "folder of the data within the volume")
	more := c.configured()
	birth := c.Bool("birth", false, "succeed without a restore if the volume has or had a database, or if --record expects one")
	expected := c.String("record", "", "folder with the operator's record, for --birth")
	validate := c.Bool("validate", false, "check only whether the restore can succeed: read the store, write nothing")
	stages := c.String("stages", "", "folder with a file for each stage: replaying, checking")
	end := c.ends()
	return c.command(arguments, func(ctx context.Context, result *contract.Result) (err error) {
		if target.Until, err = end(); err != nil {
			return err
		}
		target.Arguments = *more
		if *validate {
			return c.validate(ctx, result, *id, target)
		}
		if target.Volume == "" {
			return contract.Errorf(contract.ReasonUsage, "--volume is required")
		}
		if target.Data != filepath.Base(target.Data) || strings.HasPrefix(target.Data, ".") || target.Data == "/" {
			return contract.Errorf(contract.ReasonUsage, "--data must be the name of a folder in the volume, not %q: a restore empties it", target.Data)
		}
		if target.Volume, err = filepath.Abs(target.Volume); err != nil { // a database server changes its working directory, so paths must be absolute
			return contract.Errorf(contract.ReasonUsage, "--volume: %w", err)
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

// tellStages creates a file for each stage. Probes check for these files.
func tellStages(folder string) func(stage string) {
	return func(stage string) {
		progress(contract.Progress{Progress: stage})
		if err := os.WriteFile(filepath.Join(folder, stage), nil, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "error: record the stage:", err) // only probes read the stage, so the restore continues
		}
	}
}

// validate checks whether a restore can succeed, and describes the backup in the result. It writes nothing.
func (c *config) validate(ctx context.Context, result *contract.Result, id string, target restore.Target) error {
	programs, err := restore.FindPrograms(ctx)
	if err != nil {
		return err
	}
	programs.Config = c.serverConfig
	source, err := c.backup(ctx, id, target.Until, false)
	if err != nil {
		return err
	}
	describe(result, source.Backup)
	if _, err = restore.Validate(ctx, source, programs, target.Until); err != nil {
		return err
	}
	settings, err := restore.Configure(ctx, source.Backup, programs, target.Arguments, target.IsScratch)
	result.Warnings = append(settings.Warnings, result.Warnings...)
	return err
}

func (c *config) restore(ctx context.Context, result *contract.Result, id string, target restore.Target) error {
	programs, err := restore.FindPrograms(ctx)
	if err != nil {
		return err
	}
	programs.Config = c.serverConfig
	source, err := c.reads(ctx, id, target.Until, target.IsScratch)
	if err != nil {
		return err
	}
	describe(result, source.Backup)
	if isFiles(source.Backup) && target.IsScratch {
		return verifyFiles(ctx, result, source, programs, target)
	}
	out, err := restore.Restore(ctx, source, programs, target)
	result.Verified = out.IsChecked
	if err != nil {
		return err
	}
	result.Warnings = append(out.Warnings, result.Warnings...)
	result.Tables, result.Rows, result.Transactions, result.Position, result.Later = out.Tables, out.Rows, out.Transactions, out.Position, out.Later
	if !out.RestoredTo.IsZero() {
		result.RestoredTo = &out.RestoredTo
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	mysqlsnapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func backupMySQL(arguments []string) int {
	c := newConfig("backup mysql")
	c.writes()
	more := c.configured()
	r := mysqlsnapshot.Run{Cluster: mysqlsnapshot.Cluster{Port: mysqlmember.Port, ServerPort: 3306}}
	cluster := c.String("cluster", "", "name of the database, with which the names of its pods begin")
	domain := c.String("domain", "", "suffix of the pods' DNS names, such as my-db-headless.default.svc")
	c.IntVar(&r.Members, "members", 5, "maximum number of members")
	c.StringVar(&r.TLS, "tls", "", "folder with the certificate of a client of the agents: tls.crt, tls.key, ca.crt")
	c.StringVar(&r.Scratch, "scratch", "", "folder with room for the whole database; the files made there are removed at the end. The password of the account that copies is in AGENT_PASSWORD or in the file AGENT_PASSWORD_FILE")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if *cluster == "" || *domain == "" || r.TLS == "" || r.Scratch == "" {
			return contract.Errorf(contract.ReasonUsage, "--cluster, --domain, --tls and --scratch are required")
		}
		var err error
		if r.Scratch, err = filepath.Abs(r.Scratch); err != nil { // a database server changes its working directory, so paths must be absolute
			return contract.Errorf(contract.ReasonUsage, "--scratch: %w", err)
		}
		r.Host = func(ordinal int) string { return fmt.Sprintf("%s-%d.%s", *cluster, ordinal, *domain) }
		if r.Password, err = secret(contract.EnvPassword); err != nil {
			return err
		}
		if r.Programs, err = restore.FindServer(ctx); err != nil {
			return err
		}
		r.Programs.Config, r.Arguments = c.serverConfig, *more
		options, err := c.draft(ctx)
		if err != nil {
			return err
		}
		made, removed, err := r.Backup(ctx, options)
		result.Removed = removed
		if err == nil {
			describe(result, made)
		}
		return err
	})
}

func restoreMySQL(arguments []string) int {
	c := newConfig("restore mysql")
	id := c.String("backup", "latest", "the backup's ID")
	pod := c.String("pod", "", "name of the one pod whose volume gets the data")
	c.StringVar(&c.serverConfig, "server-config", "", "configuration file of the server; default: the files that the server reads by itself")
	end := c.ends()
	v := &volume.Volume{Pod: os.Getenv("POD_NAMESPACE") + "/" + os.Getenv("POD_NAME")}
	c.StringVar(&v.Root, "volume", "", "root of the volume. A volume that has data, or had some, is not changed")
	c.StringVar(&v.Data, "data", "mysql", "folder of the data within the volume")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if v.Root == "" || *pod == "" {
			return contract.Errorf(contract.ReasonUsage, "--volume and --pod are required")
		}
		if *pod != os.Getenv("POD_NAME") {
			return nil // another pod begins the database
		}
		until, err := end()
		if err != nil {
			return err
		}
		if may, err := v.MayRestore(); !may || err != nil {
			return err
		}
		programs, err := restore.FindServer(ctx)
		if err != nil {
			return err
		}
		programs.Config = c.serverConfig
		source, err := c.reads(ctx, *id, until, false)
		if err != nil {
			return err
		}
		out, err := mysqlsnapshot.Restore(ctx, source, programs, v, until)
		if err != nil {
			return err
		}
		describe(result, source.Backup)
		result.Warnings = append(out.Warnings, result.Warnings...)
		replayedTo(result, out)
		return nil
	})
}

// isFiles reports whether a backup is a copy of a member's files.
func isFiles(b *manifest.Backup) bool { return b.Base == manifest.Files }

// verifyFiles checks a backup of a member's files in the folder of a target.
func verifyFiles(ctx context.Context, result *contract.Result, source restore.Source, programs restore.Programs, target restore.Target) error {
	out, err := mysqlsnapshot.Verify(ctx, source, programs, filepath.Join(target.Volume, target.Data), target.Arguments, target.Until)
	if result.Verified = out.IsChecked; err == nil {
		result.Tables, result.Rows = out.Tables, out.Rows
		replayedTo(result, out)
	}
	return err
}

// replayedTo adds the end of a replay to a result, and the numbers of transactions before and after this end.
func replayedTo(result *contract.Result, out restore.Outcome) {
	if result.Transactions, result.Later = out.Transactions, out.Later; !out.RestoredTo.IsZero() {
		result.RestoredTo, result.Position = &out.RestoredTo, out.Position
	}
}

func archiveMySQL(arguments []string) int {
	c := newConfig("archive mysql")
	c.writes()
	a := mysqlsnapshot.Archive{Cluster: mysqlsnapshot.Cluster{Port: mysqlmember.Port, ServerPort: 3306}}
	cluster := c.String("cluster", "", "name of the database, with which the names of its pods begin")
	domain := c.String("domain", "", "suffix of the pods' DNS names, such as my-db-headless.default.svc")
	c.IntVar(&a.Members, "members", 5, "maximum number of members")
	c.StringVar(&a.TLS, "tls", "", "folder with the certificate of a client of the agents: tls.crt, tls.key, ca.crt. The password of the account that archives is in AGENT_PASSWORD or in the file AGENT_PASSWORD_FILE")
	how := c.archives(&a.Interval, &a.MaxBytes)
	c.IntVar(&a.MaxFile, "file-bytes", 128<<20, "size at which a file ends; old files are removed as a whole")
	return c.command(arguments, func(ctx context.Context, _ *contract.Result) (err error) {
		if *cluster == "" || *domain == "" || a.TLS == "" || a.MaxFile < 1 {
			return contract.Errorf(contract.ReasonUsage, "--cluster, --domain and --tls are required, and --file-bytes must be 1 or more")
		}
		a.Host = func(ordinal int) string { return fmt.Sprintf("%s-%d.%s", *cluster, ordinal, *domain) }
		if a.Password, err = secret(contract.EnvPassword); err != nil {
			return err
		}
		if a.Recipients, err = c.publicKeys(); err != nil {
			return err
		}
		a.Source, a.Writer, a.Keys = c.source, c.writer, c.recipients
		return how.run(ctx, c, a.Interval, a.MaxBytes, func(s store.Store, archived func(manifest.Head)) func(context.Context) error {
			a.Store, a.Archived = s, archived
			return a.Run
		})
	})
}

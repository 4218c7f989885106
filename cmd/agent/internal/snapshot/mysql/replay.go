// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"os"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// replayed is a backup with an optional replay of the archive after it.
type replayed struct {
	source   restore.Source
	programs restore.Programs
	more     []string
	lock     *os.File
	settings restore.Settings
	plan     *restore.Plan // nil for no replay
}

// prepare plans the replay. It returns an error if the replay cannot reach its end. The caller calls it before it writes anything.
func (r *replayed) prepare(ctx context.Context, until *restore.Until, isScratch bool) (err error) {
	if until != nil {
		if r.plan, err = restore.PlanFor(ctx, r.source, *until); err != nil {
			return err
		}
	}
	if until != nil || isScratch {
		r.settings, err = restore.Configure(ctx, r.source.Backup, r.programs, r.more, isScratch)
	}
	return err
}

func (r *replayed) instance(folder string) *restore.Instance {
	return &restore.Instance{Programs: r.programs, Data: folder, More: r.more, Settings: r.settings, Lock: r.lock}
}

// check counts the rows of all tables, and compares the numbers with rows.
func (r *replayed) check(ctx context.Context, c *server.Conn, i *restore.Instance, rows map[string]int64, out *restore.Outcome) error {
	counter, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer counter.Close()
	out.Tables, out.Rows, err = restore.Check(c, counter, r.source.Backup, rows)
	return err
}

// replay applies the archive to the files in a folder, by a server without a network, and stops the server cleanly. It
// leaves neither replication settings nor a temporary account in the data. After an interrupted replay, the caller must
// start again with the backup.
func (r *replayed) replay(ctx context.Context, folder string, out *restore.Outcome, then func(*server.Conn, *restore.Instance) error) error {
	i := r.instance(folder)
	defer i.Kill()
	if err := i.Enter(ctx, clone.Quiet...); err != nil {
		return err
	}
	if err := r.begins(ctx, i); err != nil {
		return err
	}
	if err := i.Stop(ctx); err != nil {
		return err
	}
	at("replaying")
	if err := r.plan.Replay(ctx, i, out, 0); err != nil {
		return restore.OfArchive(err)
	}
	c, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if then != nil {
		if err := clone.Bounded(ctx, i, func() error { return then(c, i) }); err != nil {
			return err
		}
	}
	for _, statement := range []string{"RESET REPLICA ALL", "DROP USER " + server.TemporaryAccount + "@localhost"} {
		if err := c.Do(statement); err != nil {
			return fmt.Errorf("end the replay: %w", err)
		}
	}
	return i.Stop(ctx)
}

// begins returns an error unless the files contain exactly the transactions that the backup's manifest lists.
func (r *replayed) begins(ctx context.Context, i *restore.Instance) error {
	has, err := i.Executed(ctx)
	if err != nil {
		return fmt.Errorf("read the transactions of the backup: %w", err)
	}
	wants, err := binlog.ParseSet(r.source.Backup.Position.GTID)
	if err == nil && !has.Equal(wants) {
		err = contract.Errorf(contract.ReasonMismatch, "backup %s has the transactions %s, but its manifest names %s", r.source.Backup.ID, has, wants)
	}
	return err
}

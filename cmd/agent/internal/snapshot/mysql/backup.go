// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/files"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

const (
	// tries is the maximum number of copies to start. (A donor may be lost during a copy.)
	tries = 3
	// catchUp is the default of Run.Patience.
	catchUp = 2 * time.Minute
	// again is the interval between queries of the members.
	again = 200 * time.Millisecond
)

// Run is one backup.
type Run struct {
	Cluster

	// Programs are the programs of the image.
	Programs restore.Programs
	// Scratch is a folder on a volume with enough space for the data. A run removes the files that it creates there.
	Scratch string
	// Arguments are added to the arguments of the servers that make the copy and run on it.
	Arguments []string
	// Patience limits two waits: until a voter has applied all transactions that the primary had at the start, and
	// until the primary has all transactions of the copy. Default: two minutes.
	Patience time.Duration
	// Interfere is called between the steps of a copy. Tests set it; otherwise it is nil.
	Interfere func(step string, donor int)

	donor, primary member
}

// Backup makes a backup with every transaction that was acknowledged before its start. It returns the manifest, and the leftovers of
// earlier runs that it removed.
func (r *Run) Backup(ctx context.Context, o draft.Options) (*manifest.Backup, []string, error) {
	done, err := o.Claim(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	d, err := draft.Begin(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	removed, err := catalogue.SweepOld(ctx, o.Store, d.Manifest.Started)
	if err != nil {
		return nil, removed, err
	}
	work, err := os.MkdirTemp(r.Scratch, "backup-")
	if err != nil {
		return nil, removed, fmt.Errorf("make a folder for the copy: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // the volume is deleted with the pod
	onDisk, err := snapshot.OpenVolume(work)
	if err != nil {
		return nil, removed, err
	}
	defer onDisk.Close()
	d.Manifest.Format, d.Manifest.Base = manifest.FormatFiles, manifest.Files
	folder, err := r.copy(ctx, work, &d.Manifest)
	if err != nil {
		return nil, removed, err
	}
	if err := r.store(ctx, d, folder, onDisk); err != nil {
		d.Discard(ctx)
		return nil, removed, err
	}
	return &d.Manifest, removed, nil
}

// copy copies a voter, and sets all fields of the manifest except Objects.
func (r *Run) copy(ctx context.Context, work string, m *manifest.Backup) (folder string, err error) {
	for try := 1; ; try++ {
		folder = filepath.Join(work, "copy-"+strconv.Itoa(try))
		err := r.copyOnce(ctx, work, folder, m)
		if err == nil || try == tries || ctx.Err() != nil || contract.ReasonOf(err) != contract.ReasonServerUnreachable {
			return folder, err
		}
		if err := os.RemoveAll(folder); err != nil {
			return folder, fmt.Errorf("remove the copy of a member that went away: %w", err)
		}
	}
}

func (r *Run) copyOnce(ctx context.Context, work, folder string, m *manifest.Backup) error {
	members, problem := r.look(ctx)
	var err error
	if r.donor, r.primary, err = donorOf(members); err != nil {
		if problem != nil {
			err = contract.Errorf(contract.ReasonServerUnreachable, "%w; %w", err, problem)
		}
		return err
	}
	if err := r.greet(ctx, r.donor); err != nil {
		return err
	}
	had := r.primary.State.Executed
	helper := r.instance(filepath.Join(work, "helper"))
	if err := os.RemoveAll(helper.Data); err != nil {
		return fmt.Errorf("remove the server of an earlier copy: %w", err)
	}
	helper.More = append(helper.More, clone.Small...)
	err = r.source(r.donor.ordinal).Copy(ctx, helper, folder, func(c *server.Conn) error {
		err := r.caughtUp(ctx, c, had)
		r.at("copying")
		return err
	})
	if err != nil {
		return err
	}
	r.at("cloned")
	if err := os.RemoveAll(helper.Data); err != nil {
		return fmt.Errorf("remove the server that made the copy: %w", err)
	}
	return clone.On(ctx, r.instance(folder), func(c *server.Conn) error { return r.check(ctx, c, had, m) })
}

func (r *Run) at(step string) {
	if r.Interfere != nil {
		r.Interfere(step, r.donor.ordinal)
	}
}

func (r *Run) instance(folder string) *restore.Instance {
	return &restore.Instance{Programs: r.Programs, Data: folder, More: slices.Concat(r.Arguments, clone.Scratch)}
}

// caughtUp waits until the donor has every transaction in had, the transactions that the primary had at the start.
func (r *Run) caughtUp(ctx context.Context, c *server.Conn, had string) error {
	return r.until(ctx, contract.ReasonServerUnreachable, fmt.Sprintf("member %d has all transactions that the primary had", r.donor.ordinal), func() (bool, error) {
		answer, err := r.ask(ctx, r.donor.ordinal, mysqlmember.PathState)
		if err != nil || answer.State == nil {
			return false, err
		}
		return contains(c, answer.State.Executed, had)
	})
}

// until waits for a condition. After Patience, it fails with the given reason. It repeats the query if a member does not answer, because
// the member may be restarting.
func (r *Run) until(ctx context.Context, reason contract.Reason, what string, is func() (bool, error)) error {
	var last error
	limit := cmp.Or(r.Patience, catchUp)
	for end := time.Now().Add(limit); time.Now().Before(end); {
		ok, err := is()
		if ok {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
	if last == nil {
		last = errors.New("the members answer")
	}
	return contract.Errorf(reason, "waited %s until %s: %w", limit, what, last)
}

// contains reports whether a set of GTIDs contains another set.
func contains(c *server.Conn, all, some string) (bool, error) {
	is, err := c.Value("SELECT GTID_SUBSET(?, ?)", some, all)
	if err != nil {
		return false, fmt.Errorf("compare sets of GTIDs: %w", err)
	}
	return is == "1", nil
}

// check returns an error if a copy is incomplete, or has a transaction that a failover may lose. It completes the manifest.
func (r *Run) check(ctx context.Context, c *server.Conn, had string, m *manifest.Backup) error {
	row, err := c.Named("SELECT STATE, BINLOG_FILE, BINLOG_POSITION FROM performance_schema.clone_status")
	if err != nil {
		return fmt.Errorf("check the copy: %w", err)
	}
	executed, err := c.Value("SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return fmt.Errorf("check the copy: %w", err)
	}
	executed = strings.ReplaceAll(executed, "\n", "")
	has, err := contains(c, executed, had)
	if err != nil {
		return err
	}
	if row["STATE"] != "Completed" || !has {
		return contract.Errorf(contract.ReasonServerUnreachable, "check the copy of member %d: its state is %q, not \"Completed\", or it lacks some of the transactions %s (it has all of them: %t)", r.donor.ordinal, row["STATE"], had, has)
	}
	events, err := r.survives(ctx, c, executed)
	if err != nil {
		return err
	}
	offset, err := strconv.ParseUint(row["BINLOG_POSITION"], 10, 64)
	if err != nil {
		return fmt.Errorf("check the copy: read its position in the log: %w", err)
	}
	m.Position = &contract.Position{File: filepath.Base(row["BINLOG_FILE"]), Offset: offset, GTID: executed}
	if err := r.describe(c, m); err != nil {
		return err
	}
	m.Warnings = nil
	if missing, err := setEvents(c, events); err != nil {
		return err
	} else if len(missing) > 0 {
		m.Warnings = append(m.Warnings, "the primary had no event of these names, so these events stay disabled: "+brief(missing))
	}
	return c.Do("RESET REPLICA ALL") // otherwise a file of the copy would contain the replication password
}

// survives waits until the primary has all transactions of the copy, and returns the primary's events. If the primary fails over during the
// wait, the new primary must also have these transactions. If the new primary never gets these transactions, the database has lost them,
// and survives returns an error.
func (r *Run) survives(ctx context.Context, c *server.Conn, executed string) (events []mysqlmember.Event, err error) {
	err = r.until(ctx, contract.ReasonBusy, fmt.Sprintf("the primary has all transactions that member %d has: a copy with further transactions is not used as a backup", r.donor.ordinal), func() (bool, error) {
		members, _ := r.look(ctx) // a member that does not answer is not a primary
		primary, err := primaryOf(members)
		if err != nil {
			return false, err
		}
		if ok, err := contains(c, primary.State.Executed, executed); !ok {
			return false, err
		}
		answer, err := r.ask(ctx, primary.ordinal, mysqlmember.PathEvents)
		if err != nil || answer.Server != primary.Server {
			return false, err
		}
		events = answer.Events
		return true, nil
	})
	return events, err
}

// describe sets the manifest's server and tables.
func (r *Run) describe(c *server.Conn, m *manifest.Backup) error {
	m.Server = manifest.Server{Version: c.Version.Text, Flavour: c.Version.Flavour, UUID: r.donor.Server}
	m.Tool = "clone " + c.Version.Text
	var err error
	if m.Server.Variables, err = c.Settings(); err != nil {
		return err
	}
	m.Server.LowerCaseTableNames = m.Server.Variables["lower_case_table_names"]
	if m.ServerTime, err = c.Now(); err != nil {
		return err
	}
	m.Tables, err = restore.CountRows(c)
	return err
}

// store writes the folder of a copy to the store, and then the manifest.
func (r *Run) store(ctx context.Context, d *draft.Draft, folder string, onDisk *snapshot.Volume) (err error) {
	if d.Manifest.Objects, err = files.Put(ctx, d, folder, onDisk); err != nil {
		return err
	}
	return d.Commit(ctx)
}

// brief joins names for a message.
func brief(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ")
}

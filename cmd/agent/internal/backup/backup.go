// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup makes one backup of a server: a copy of its files, or a dump and then the accounts. It writes the manifest last. Objects
// without a manifest do not count as a backup.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	archived "d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Options selects the data of a backup and its destination.
type Options struct {
	draft.Options

	Server server.Options
	// SkipAccounts are names of accounts that a restored database does not keep, because the operator creates its own
	// accounts there. A replay needs them temporarily, because the binary log may change them.
	SkipAccounts []string
	// MaxLockWait limits the time for which the dump waits for a lock of all tables.
	MaxLockWait time.Duration
	// Tries limits the attempts to dump. A further attempt follows if tables change during the dump, or if the program crashes.
	Tries int
	// DumpProgram is the path of the dump program.
	DumpProgram string
	// Schemas are the schemas to dump. If it is empty, the dump contains all schemas except the server's own.
	Schemas []string
	// Copy configures a copy of the server's files; nil for a dump. If the files cannot be copied, the backup is a dump.
	Copy *Copy
	// Lock names the lock that the agent holds on the server; "" for the default name.
	Lock string
	// LeavesLog prevents the backup from making the server begin a new file of its binary log, even if that would help the dump or a restore.
	LeavesLog bool
}

// lockName is the lock that agents hold on the server while they back it up.
const lockName = "d3os-backup"

// run is one backup.
type run struct {
	*draft.Draft

	options Options
	conn    *server.Conn
	// before lists the objects that a restore loads before the dump. said holds warnings that do not depend on the dump.
	before []manifest.Object
	said   []string
	// saved and extras hold the accounts and the extras at the position of the last attempt to dump.
	saved  accounts
	extras *extras
}

// Run makes a backup. It returns the manifest, and the leftovers of earlier runs that it removed.
func Run(ctx context.Context, o Options) (*manifest.Backup, []string, error) {
	conn, err := server.Connect(ctx, o.Server)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	conn.Only(o.Schemas)
	if err := lock(conn, o.lockName()); err != nil {
		return nil, nil, err
	}
	done, err := o.Claim(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	removed, err := catalogue.Sweep(ctx, o.Store, time.Now())
	if err != nil {
		return nil, removed, err
	}
	d, err := draft.Begin(ctx, o.Options)
	if err != nil {
		return nil, removed, err
	}
	r := &run{Draft: d, options: o, conn: conn}
	if err := r.all(ctx); err != nil {
		r.Discard(ctx)
		return nil, removed, err
	}
	return &r.Manifest, removed, nil
}

func (o Options) lockName() string { return cmp.Or(o.Lock, lockName) }

// lock takes a lock on the server. The server releases the lock when this connection ends.
func lock(conn *server.Conn, name string) error {
	// A server ends connections that are silent for hours, but a dump may take longer.
	if err := conn.Do("SET SESSION wait_timeout = 604800"); err != nil {
		return err
	}
	got, err := conn.Value("SELECT GET_LOCK(" + server.Literal(name) + ", 5)")
	if err != nil {
		return err
	}
	if got != "1" {
		return contract.Errorf(contract.ReasonBusy, "another agent backs up this server: wait until that backup ends")
	}
	return nil
}

// holds returns an error if the lock is lost: the server may have restarted, and another agent may have begun a backup.
func (r *run) holds() error {
	held, err := r.conn.Value("SELECT IS_USED_LOCK(" + server.Literal(r.options.lockName()) + ") = CONNECTION_ID()")
	if err == nil && held != "1" {
		err = contract.Errorf(contract.ReasonBusy, "the server has released this backup's lock: another backup may have begun")
	}
	return err
}

func (r *run) all(ctx context.Context) error {
	if err := r.describe(); err != nil {
		return err
	}
	if r.options.Copy != nil {
		why, err := r.copyFiles(ctx)
		if err != nil {
			return err
		}
		if why == "" {
			return r.finish(ctx)
		}
		r.said = append(r.said, "the backup is a dump, because the files could not be copied: "+why)
	}
	if err := r.zones(ctx); err != nil {
		return err
	}
	if err := r.attempts(ctx); err != nil {
		return err
	}
	if err := r.putAccounts(ctx, r.saved); err != nil {
		return err
	}
	if err := r.put(ctx, manifest.ViewsName, r.extras.views, &r.Manifest.Objects); err != nil {
		return err
	}
	return r.finish(ctx)
}

// attempts calls dump until dump succeeds. It returns an error after Options.Tries attempts, and after an error that
// another attempt would not avoid.
func (r *run) attempts(ctx context.Context) error {
	for dumps, begins := 1, 1; ; {
		err := r.dump(ctx)
		switch isCrash := errors.Is(err, dump.ErrCrashed); {
		case err == nil, ctx.Err() != nil:
			return err
		case errors.Is(err, errAccounts):
			if begins++; begins > accountTries {
				return err
			}
		case !isCrash && !errors.Is(err, dump.ErrChanged):
			return err
		case dumps >= r.options.Tries:
			return r.advise(err)
		default:
			dumps++
			// mariadb-dump crashes if the current file of the log has an event above max_allowed_packet: BINLOG_GTID_POS returns NULL for such a
			// file.
			if isCrash && !r.options.LeavesLog {
				if flushErr := r.conn.Do("FLUSH LOCAL BINARY LOGS"); flushErr != nil {
					return errors.Join(err, flushErr)
				}
			}
		}
	}
}

// advise adds advice for the user to the error of the last attempt if tables changed during that attempt.
func (r *run) advise(err error) error {
	switch {
	case !errors.Is(err, dump.ErrChanged):
		return err
	case r.options.Copy == nil && r.conn.Version.AtLeast(8, 0, 17):
		return fmt.Errorf("%w. Back up by a copy of the files, which such changes do not disturb (mysql.backup.method: Files), or back up at a time without such changes", err)
	default:
		return fmt.Errorf("%w. Back up at a time without such changes", err)
	}
}

// finish writes the manifest. Before that, it checks that this backup still has its lock: another agent with the lock may have removed the
// backup's objects.
func (r *run) finish(ctx context.Context) error {
	if err := r.holds(); err != nil {
		return err
	}
	var err error
	if r.Manifest.ServerTime, err = r.conn.Now(); err != nil {
		return err
	}
	return r.Commit(ctx)
}

// describe reads the server's version and settings into the manifest.
func (r *run) describe() error {
	m, v := &r.Manifest, r.conn.Version
	m.Server = manifest.Server{Version: v.Text, Flavour: v.Flavour}
	var err error
	if m.Server.Variables, err = r.conn.Settings(); err != nil {
		return err
	}
	m.Server.LowerCaseTableNames = m.Server.Variables["lower_case_table_names"]
	m.Server.Zone = &manifest.Zone{TZ: os.Getenv("TZ")}
	if m.Server.Zone.Name, m.Server.Zone.Offsets, err = r.conn.SystemZone(); err != nil {
		return err
	}
	if v.Flavour == server.MySQL {
		if m.Server.UUID, err = r.conn.Variable("server_uuid"); err != nil {
			return err
		}
	}
	m.Tool = r.options.DumpProgram[strings.LastIndex(r.options.DumpProgram, "/")+1:]
	return nil
}

// dump writes the dump's object in one attempt. It fails if a definition on the server changed during the dump, or if an account changed
// while the dump began. It reads the extras between both reads of the definitions: warnings of an earlier attempt would lack objects that
// were created since then.
func (r *run) dump(ctx context.Context) error {
	state, err := r.state()
	if err != nil {
		return err
	}
	extras, objects, err := r.putExtras(ctx)
	if err != nil {
		return err
	}
	schemas := state.schemas
	binlog, err := r.conn.Variable("log_bin")
	if err != nil {
		return err
	}
	if binlog == "ON" && r.conn.Version.Flavour == server.MySQL {
		if err := dump.Calm(ctx, r.conn, r.options.MaxLockWait); err != nil {
			return err
		}
	}
	if err := r.rotate(ctx, binlog == "ON"); err != nil {
		return err
	}
	before, err := r.inFlight(binlog == "ON")
	if err != nil {
		return err
	}
	watcher, err := server.Connect(ctx, r.options.Server)
	if err != nil {
		return err
	}
	defer watcher.Close()
	watching, cancel := context.WithCancelCause(ctx) // ends with the dump
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := dump.Watch(watching, watcher, r.options.MaxLockWait); err != nil {
			cancel(err)
		}
	}()
	accounts, areSame, err := r.beginAccounts()
	if err != nil {
		return err
	}
	o := dump.Options{Server: r.options.Server, Conn: r.conn, Schemas: schemas, Position: binlog == "ON", Version: r.conn.Version, Ignored: extras.ignored, History: len(extras.versioned) > 0, Begun: areSame}
	var scanner *dump.Scanner
	object, err := r.Put(watching, "dump.sql", func(w io.Writer) (err error) {
		if len(schemas) == 0 {
			scanner, err = r.nothing(w, o.Position)
			return errors.Join(err, areSame())
		}
		scanner, err = dump.Run(watching, o, r.options.DumpProgram, w)
		return err
	})
	cancel(nil)
	<-watched
	if cause := context.Cause(watching); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err != nil {
		return err
	}
	after, err := r.state()
	if err != nil {
		return err
	}
	if err := errors.Join(state.same(after), covers(scanner, after.tables)); err != nil {
		return contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w", r.options.Server.Address, err)
	}
	r.Manifest.Objects = append(objects, object)
	r.Manifest.Tables, r.Manifest.Position = scanner.Rows, scanner.Position
	r.Manifest.Warnings = slices.Concat(r.said, extras.warnings, warnings(after.tables), r.lackedHistory(scanner, extras))
	if err := r.identify(ctx); err != nil {
		return err
	}
	if err := r.findPrepared(ctx, before); err != nil {
		return err
	}
	r.Manifest.TemporaryAccounts, r.saved, r.extras = r.options.SkipAccounts, accounts, extras
	return nil
}

// putExtras reads the extras, and writes the object with their statements. It returns all objects that a restore loads before the dump.
func (r *run) putExtras(ctx context.Context) (*extras, []manifest.Object, error) {
	extras, err := readExtras(r.conn)
	if err != nil {
		return nil, nil, err
	}
	objects := slices.Clone(r.before)
	return extras, objects, r.put(ctx, manifest.ObjectsName, extras.before, &objects)
}

// lackedHistory returns a warning if the dump lacks the former rows of tables.
func (r *run) lackedHistory(scanner *dump.Scanner, extras *extras) []string {
	if !scanner.LacksHistory {
		return nil
	}
	return named("the former rows of system-versioned tables are not in the backup, because "+r.Manifest.Tool+" of the image cannot dump them: use an image of MariaDB 10.11 or newer", extras.versioned)
}

// nothing writes an empty dump for a server without schemas, because dump programs fail on such a server.
func (r *run) nothing(w io.Writer, position bool) (*dump.Scanner, error) {
	scanner := dump.NewScanner()
	if position {
		var err error
		if scanner.Position, err = r.conn.Position(); err != nil {
			return nil, err
		}
	}
	_, err := io.WriteString(w, "-- The server has no schemas.\n-- Dump completed\n")
	return scanner, err
}

// identify records LogBegan, the time at which the server began the file of the dump's position. This time distinguishes the file from files
// of the same name before and after a reset of the log. identify fails if the log was reset during the dump.
func (r *run) identify(ctx context.Context) error {
	m := &r.Manifest
	if m.LogBegan = (time.Time{}); m.Position == nil {
		return nil
	}
	began, err := r.conn.Began(ctx, m.Position.File)
	if err != nil {
		m.Warnings = append(m.Warnings, "the account may not follow the binary log, so only times show which archive continues the backup: grant the account REPLICATION SLAVE")
		return nil //nolint:nilerr // the backup is usable without the identity
	}
	now, err := r.conn.Position()
	if err != nil {
		return err
	}
	if now == nil || len(now.File) == len(m.Position.File) && now.File < m.Position.File || now.File == m.Position.File && now.Offset < m.Position.Offset {
		return contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w: the server has begun its binary log again", r.options.Server.Address, dump.ErrChanged)
	}
	m.LogBegan = began
	return nil
}

// rotate makes the server begin a new file of its binary log if the archive has encrypted a part of the present file to
// other keys. A replay reads each file from its beginning. Without a new file, a later restore would also need the old
// key.
func (r *run) rotate(ctx context.Context, hasLog bool) error {
	if !hasLog || r.options.LeavesLog {
		return nil
	}
	heads, err := archived.Heads(ctx, r.Store)
	if err != nil {
		return err
	}
	for _, head := range heads {
		if head.Source != r.Source {
			continue
		}
		t, err := archived.Read(ctx, r.Store, head, head.Position.File)
		if err != nil {
			return err
		}
		if !t.OpensWith(r.Keys) {
			return r.conn.Do("FLUSH BINARY LOGS")
		}
		break // the archive writes only to the newest timeline of the source
	}
	return nil
}

// covers compares the tables after the dump with the tables in the dump, except those that dump programs omit.
func covers(scanner *dump.Scanner, after []server.Table) error {
	after = slices.DeleteFunc(slices.Clone(after), server.Table.IsOmitted)
	if len(after) != len(scanner.Rows) {
		return fmt.Errorf("%w: the server has %d tables, the dump %d", dump.ErrChanged, len(after), len(scanner.Rows))
	}
	for _, table := range after {
		if _, ok := scanner.Rows[table.Quoted()]; !ok {
			return fmt.Errorf("%w: table %s is not in the dump", dump.ErrChanged, table.Quoted())
		}
	}
	return nil
}

// warnings returns warnings about tables that a dump reads without a snapshot, and about tables whose rows it does not read.
func warnings(tables []server.Table) []string {
	var noSnapshot, elsewhere, omitted []string
	for _, table := range tables {
		switch name := table.Quoted() + " (" + table.Engine + ")"; {
		case table.IsOmitted():
			omitted = append(omitted, name)
		case table.HasRowsElsewhere():
			elsewhere = append(elsewhere, name)
		case table.Engine != "InnoDB":
			noSnapshot = append(noSnapshot, name)
		}
	}
	return slices.Concat(
		named("tables that are not InnoDB have no snapshot, so their rows may be newer than the position", noSnapshot),
		named("the backup may have only the definitions of these tables, whose engines can keep rows in other tables, files or servers", elsewhere),
		named("the backup does not have these tables, because dump programs omit their engine", omitted),
	)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// Options say what to archive, and where to.
type Options struct {
	Server     server.Options
	Store      store.Store
	Recipients []age.Recipient
	// Source names the data, as in manifests.
	Source string
	// Interval is how old what is not archived yet may become; MaxBytes closes a segment before that.
	Interval time.Duration
	MaxBytes int
	// ServerID is the archive's own among the server's replicas; 0: a random one.
	ServerID uint32
	// Archived is told after each look at the server; nil for nobody.
	Archived func(manifest.Head)
}

const lockName = "d3os-archive"

// archive is one connection's work.
type archive struct {
	Options
	conn    *server.Conn
	head    manifest.Head
	newest  string             // name of the newest timeline in the store
	last    *contract.Position // the end of the last segment; nil before the first
	tracker Tracker
	file    string
	began   time.Time // of the file
	resumed time.Time // when the file was begun that the archive has the begin of; zero for none
	buffer  bytes.Buffer
	segment manifest.Segment
	since   time.Time // of the first event in the buffer
}

// Archive copies the server's binary log to the store until ctx ends, or the connection breaks. Whoever calls it again
// goes on where the store says that it stands. Where the server has not what comes next, a new timeline begins.
func Archive(ctx context.Context, o Options) error {
	conn, err := server.Connect(ctx, o.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	a := &archive{Options: o, conn: conn}
	if err := a.lock(); err != nil {
		return err
	}
	if _, err := o.Store.Sweep(ctx, manifest.BinLogs); err != nil {
		return err
	}
	if err := a.resume(ctx); err != nil {
		return err
	}
	err = a.follow(ctx)
	if ctx.Err() != nil || errors.Is(err, errReset) {
		if errors.Is(err, errReset) {
			return a.restart(ctx, "Reset")
		}
		// The end was asked for: what has come is kept.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return a.flush(last)
	}
	return err
}

func (a *archive) lock() error {
	if err := a.conn.Do("SET SESSION wait_timeout = 604800"); err != nil {
		return err
	}
	got, err := a.conn.Value("SELECT GET_LOCK('" + lockName + "', 5)")
	if err == nil && got != "1" {
		err = contract.Errorf(contract.ReasonBusy, "another agent archives the binary log of this server")
	}
	return err
}

// resume finds where the store stands, and whether the server has what comes next.
func (a *archive) resume(ctx context.Context) error {
	rows, err := a.conn.Rows("SHOW BINARY LOGS")
	if err != nil {
		if server.Code(err) == mysql.ER_NO_BINARY_LOGGING {
			return contract.Errorf(contract.ReasonNoBinaryLog, "server %s keeps no binary log, so there is nothing to archive: turn it on: %w", a.Server.Address, err)
		}
		return err
	}
	if len(rows) == 0 {
		return contract.Errorf(contract.ReasonNoBinaryLog, "server %s keeps no binary log, so there is nothing to archive: turn it on", a.Server.Address)
	}
	heads, err := Heads(ctx, a.Store)
	if err != nil {
		return err
	}
	if len(heads) > 0 {
		a.newest = heads[0].Timeline
	}
	for _, head := range heads {
		if head.Source != a.Source {
			continue
		}
		t, err := Read(ctx, a.Store, head, "")
		if err != nil {
			return err
		}
		if t.Broken != nil {
			return a.begin(ctx, rows[0][0], "Damaged")
		}
		a.head = head
		if len(t.Segments) == 0 {
			return a.from(contract.Position{File: rows[0][0], Offset: FirstOffset}, time.Time{})
		}
		end := t.end()
		a.last = &end
		began := t.Segments[len(t.Segments)-1].FileTime
		if end.Offset == FirstOffset {
			began = time.Time{}
		}
		for _, row := range rows {
			size, _ := strconv.ParseUint(row[1], 10, 64) // the server's own number
			if row[0] == end.File && size >= end.Offset {
				return a.from(end, began)
			}
		}
		if newest := rows[len(rows)-1][0]; !Older(end.File, newest) {
			return a.begin(ctx, rows[0][0], "Reset") // the server is not as far any more
		}
		return a.begin(ctx, rows[0][0], "Gap")
	}
	return a.begin(ctx, rows[0][0], "First")
}

// restart begins a new timeline at the server's oldest file; the next Archive goes on there.
func (a *archive) restart(ctx context.Context, reason string) error {
	files, err := a.conn.BinaryLogs()
	if err != nil {
		return err
	}
	return a.begin(ctx, files[0], reason)
}

// begin begins a timeline.
func (a *archive) begin(ctx context.Context, file, reason string) error {
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // never fails
	// Names of timelines sort by age, also of those that begin within one second.
	name := manifest.ID(time.Now(), random)
	if before, err := manifest.Time(a.newest); err == nil && a.newest[:16] >= name[:16] {
		name = manifest.ID(before.Add(time.Second), random)
	}
	a.newest = name
	a.head = manifest.Head{Format: manifest.Format, Timeline: name, Source: a.Source, Reason: reason}
	a.last = nil
	if err := a.save(ctx); err != nil {
		return err
	}
	return a.from(contract.Position{File: file, Offset: FirstOffset}, time.Time{})
}

func (a *archive) from(p contract.Position, began time.Time) error {
	a.file, a.tracker, a.resumed = p.File, Tracker{Offset: p.Offset}, began
	return nil
}

func (a *archive) save(ctx context.Context) error {
	text, err := manifest.Encode(&a.head)
	if err != nil {
		return err
	}
	return a.Store.Replace(ctx, manifest.TimelineFolder(a.head.Timeline)+manifest.HeadName, text)
}

// errReset: the server's file is another one of the same name.
var errReset = errors.New("the server has begun another binary log under the same name")

// follow takes events until something ends it.
func (a *archive) follow(ctx context.Context) error {
	syncer := replication.NewBinlogSyncer(a.config())
	defer syncer.Close()
	streamer, err := syncer.StartSync(mysql.Position{Name: a.file, Pos: uint32(a.tracker.Offset)}) //nolint:gosec // the protocol has 32 bits
	if err != nil {
		return a.failed(err)
	}
	look := time.NewTicker(a.Interval / 2)
	defer look.Stop()
	var target *contract.Position // what the server had at a time
	var at time.Time
	if target, at, err = a.ask(); err != nil {
		return err
	}
	heard := time.Now()
	for {
		wait, cancel := context.WithTimeout(ctx, a.Interval/4)
		event, err := streamer.GetEvent(wait)
		cancel()
		switch {
		case err == nil:
			before := a.position()
			if err := a.take(ctx, event.RawData); err != nil {
				return err
			}
			if a.position() != before {
				heard = time.Now() // heartbeats do not count
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return a.failed(err)
		}
		if target != nil && !Before(a.position(), *target) {
			if err := a.reached(ctx, at); err != nil {
				return err
			}
			target = nil
		}
		if target != nil && time.Since(heard) > 3*a.Interval {
			return contract.Errorf(contract.ReasonServerUnreachable, "server %s has more of its binary log, but sends nothing", a.Server.Address)
		}
		select {
		case <-look.C:
			if target == nil {
				if target, at, err = a.ask(); err != nil {
					return err
				}
				heard = time.Now()
			}
		default:
		}
		if a.buffer.Len() > 0 && time.Since(a.since) >= a.Interval/2 {
			if err := a.flush(ctx); err != nil {
				return err
			}
		}
	}
}

func (a *archive) config() replication.BinlogSyncerConfig {
	host, portText, err := net.SplitHostPort(a.Server.Address)
	port, _ := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		host, port = a.Server.Address, 0 // a socket
	}
	id := a.ServerID
	for id < 2 {
		random := make([]byte, 4)
		_, _ = rand.Read(random) // never fails
		id = 1<<31 | uint32(random[0])<<16 | uint32(random[1])<<8 | uint32(random[2])
	}
	config := replication.BinlogSyncerConfig{ServerID: id, Flavor: a.conn.Version.Flavour, Host: host, Port: uint16(port), User: a.Server.User, Password: a.Server.Password,
		RawModeEnabled: true, DisableRetrySync: true, VerifyChecksum: true, EventCacheCount: 128, Localhost: "d3os-archive",
		HeartbeatPeriod: a.Interval / 2, ReadTimeout: a.Interval + 10*time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if a.conn.Version.Flavour == server.MariaDB {
		config.DumpCommandFlag = replication.BINLOG_SEND_ANNOTATE_ROWS_EVENT // else events are left out
	}
	return config
}

// ask returns where the server's binary log ends, and a time before that. It fails with errReset where that is before what
// the server has sent already.
func (a *archive) ask() (*contract.Position, time.Time, error) {
	sent := a.position()
	if err := a.conn.Limit(time.Now().Add(30 * time.Second)); err != nil {
		return nil, time.Time{}, err
	}
	text, err := a.conn.Value("SELECT UNIX_TIMESTAMP(NOW(6))")
	if err != nil {
		return nil, time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the server's clock: %w", err)
	}
	held, err := a.conn.Value("SELECT IS_USED_LOCK('" + lockName + "') = CONNECTION_ID()")
	if err == nil && held != "1" {
		err = contract.Errorf(contract.ReasonBusy, "the server has freed the lock of this archive")
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	p, err := a.conn.Position()
	switch {
	case err != nil:
	case p == nil:
		err = contract.Errorf(contract.ReasonNoBinaryLog, "server %s keeps no binary log any more", a.Server.Address)
	case Before(*p, sent):
		err = errReset
	}
	return p, time.UnixMicro(int64(seconds * 1e6)).UTC(), err
}

func (a *archive) position() contract.Position {
	return contract.Position{File: a.file, Offset: a.tracker.Offset}
}

// take takes an event.
func (a *archive) take(ctx context.Context, raw []byte) error {
	begin := a.tracker.Offset
	e, err := a.tracker.Next(raw)
	if err != nil {
		return contract.Errorf(contract.ReasonGap, "archive %s: %w", a.file, err)
	}
	if e.Format {
		if !a.resumed.IsZero() && !a.resumed.Equal(e.Time) {
			return errReset
		}
		a.began, a.resumed = e.Time, time.Time{}
	}
	if e.Artificial {
		if e.Next != "" && e.Next != a.file {
			return a.rotate(ctx, e.Next) // the file ended without a word: its server was killed
		}
		return nil
	}
	if a.buffer.Len() == 0 {
		a.since = time.Now()
		a.segment = manifest.Segment{Format: manifest.Format, Timeline: a.head.Timeline, File: a.file, From: begin, FileTime: a.began, Continues: a.last, FirstTime: e.Time}
	}
	_, _ = a.buffer.Write(raw) // never fails
	a.segment.To, a.segment.LastTime = a.tracker.Offset, e.Time
	if e.Ends {
		a.segment.Transactions++
	}
	if e.Next != "" {
		return a.rotate(ctx, e.Next)
	}
	if a.buffer.Len() >= a.MaxBytes {
		return a.flush(ctx)
	}
	return nil
}

// rotate ends the file's last segment, which may be empty.
func (a *archive) rotate(ctx context.Context, next string) error {
	if a.buffer.Len() == 0 {
		a.segment = manifest.Segment{Format: manifest.Format, Timeline: a.head.Timeline, File: a.file, From: a.tracker.Offset, To: a.tracker.Offset, FileTime: a.began,
			Continues: a.last, FirstTime: a.began, LastTime: a.began}
	}
	a.segment.Next = next
	if err := a.write(ctx); err != nil {
		return err
	}
	a.file, a.tracker = next, Tracker{Offset: FirstOffset}
	return nil
}

// flush writes what has come as a segment.
func (a *archive) flush(ctx context.Context) error {
	if a.buffer.Len() == 0 {
		return nil
	}
	return a.write(ctx)
}

func (a *archive) write(ctx context.Context) error {
	var sealed bytes.Buffer
	w, err := seal.NewWriter(&sealed, a.Recipients, 1)
	if err != nil {
		return err
	}
	if _, err = w.Write(a.buffer.Bytes()); err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("seal a segment: %w", err)
	}
	s := &a.segment
	stem := manifest.Stem(s.File, s.From, s.To)
	s.Object = w.Object(stem[strings.LastIndex(stem, "/")+1:] + seal.Suffix(a.Recipients))
	folder := manifest.TimelineFolder(s.Timeline) + s.File + "/"
	if err := a.Store.Put(ctx, folder+s.Object.Name, &sealed); err != nil {
		return err
	}
	s.Archived = time.Now().UTC()
	text, err := manifest.Encode(s)
	if err != nil {
		return err
	}
	// There may be one that an agent wrote before it was killed: the same bytes, sealed otherwise.
	if err := a.Store.Replace(ctx, s.Name(), text); err != nil {
		return err
	}
	end := s.End()
	a.last = &end
	a.buffer.Reset()
	return nil
}

// reached writes that everything up to a time is in the archive.
func (a *archive) reached(ctx context.Context, at time.Time) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	a.head.Position, a.head.Time = a.position(), at
	if err := a.save(ctx); err != nil {
		return err
	}
	if a.Archived != nil {
		a.Archived(a.head)
	}
	return nil
}

// failed finds out of which kind a failure of the replication protocol is.
func (a *archive) failed(err error) error {
	switch server.Code(err) {
	case mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG:
		return contract.Errorf(contract.ReasonGap, "server %s cannot send %s from offset %d: %w", a.Server.Address, a.file, a.tracker.Offset, err)
	case mysql.ER_ACCESS_DENIED_ERROR, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR:
		return contract.Errorf(contract.ReasonAccessDenied, "read the binary log of server %s as %s: %w", a.Server.Address, a.Server.User, err)
	}
	return contract.Errorf(contract.ReasonServerUnreachable, "read the binary log of server %s: %w", a.Server.Address, err)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// errReset reports that the server has reset its binary log: its file is not the archived file of the same name.
var errReset = errors.New("the server has begun another binary log under the same name")

// follow receives events until the context ends or a failure occurs.
func (a *archive) follow(ctx context.Context) error {
	syncer, streamer, err := a.stream()
	if err != nil {
		return err
	}
	defer syncer.Close()
	look := time.NewTicker(a.Interval / 2)
	defer look.Stop()
	var target *contract.Position // the end of the server's log at the last query
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
				heard = time.Now() // a heartbeat does not move the position
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

// stream starts the replication at the archive's position.
func (a *archive) stream() (*replication.BinlogSyncer, *replication.BinlogStreamer, error) {
	config := a.config()
	syncer := replication.NewBinlogSyncer(config)
	streamer, err := syncer.StartSync(mysql.Position{Name: a.file, Pos: uint32(a.tracker.Offset)}) //nolint:gosec // the protocol has 32 bits
	if err != nil {
		syncer.Close()
		return nil, nil, a.failed(err)
	}
	return syncer, streamer, nil
}

func (a *archive) config() replication.BinlogSyncerConfig {
	host, portText, err := net.SplitHostPort(a.Server.Address)
	port, _ := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		host, port = a.Server.Address, 0 // Address is a socket
	}
	id := a.ServerID
	for id < 2 {
		random := make([]byte, 4)
		_, _ = rand.Read(random) // cannot fail
		id = 1<<31 | uint32(random[0])<<16 | uint32(random[1])<<8 | uint32(random[2])
	}
	config := replication.BinlogSyncerConfig{ServerID: id, Flavor: a.conn.Version.Flavour, Host: host, Port: uint16(port), User: a.Server.User, Password: a.Server.Password,
		RawModeEnabled: true, DisableRetrySync: true, VerifyChecksum: true, EventCacheCount: 128, Localhost: "d3os-archive", TLSConfig: a.conn.TLS(),
		HeartbeatPeriod: a.Interval / 2, ReadTimeout: a.Interval + 10*time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if a.conn.Version.Flavour == server.MariaDB {
		config.DumpCommandFlag = replication.BINLOG_SEND_ANNOTATE_ROWS_EVENT // otherwise the server omits these events
	}
	return config
}

// ask returns the end of the server's binary log, and the server's time just before it was read. It fails with errReset
// if the server has already sent data after that end.
func (a *archive) ask() (*contract.Position, time.Time, error) {
	sent := a.position()
	if err := a.conn.Limit(time.Now().Add(30 * time.Second)); err != nil {
		return nil, time.Time{}, err
	}
	now, err := a.conn.Now()
	if err != nil {
		return nil, time.Time{}, err
	}
	held, err := a.conn.Value("SELECT IS_USED_LOCK(" + server.Literal(a.lockName()) + ") = CONNECTION_ID()")
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
	return p, now, err
}

func (a *archive) position() contract.Position {
	return contract.Position{File: a.file, Offset: a.tracker.Offset}
}

// take processes an event.
func (a *archive) take(ctx context.Context, raw []byte) error {
	begin := a.tracker.Offset
	e, err := a.tracker.Next(raw)
	if errors.Is(err, ErrUnknownType) {
		// Earlier events can still be restored.
		return errors.Join(contract.Errorf(contract.ReasonRefused, "archive %s: %w", a.file, err), a.flush(ctx))
	}
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
			return a.rotate(ctx, e.Next) // no end event: the server was killed
		}
		return nil
	}
	if a.buffer.Len() == 0 {
		a.since = time.Now()
		a.segment = manifest.Segment{Format: manifest.Format, Timeline: a.head.Timeline, File: a.file, From: begin, FileTime: a.began, Continues: a.last, FirstTime: e.Time,
			NotBefore: a.notBefore(begin)}
	}
	_, _ = a.buffer.Write(raw) // cannot fail
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

// notBefore returns a time that is earlier than all commits after an offset of the file; zero if none is known. If
// the log ended at that offset when the server was last queried, notBefore returns the time of that query.
func (a *archive) notBefore(offset uint64) time.Time {
	if a.head.Position.File == "" || Before(contract.Position{File: a.file, Offset: offset}, a.head.Position) {
		return time.Time{}
	}
	return a.head.Time
}

// rotate stores the last segment of the file, which may be empty, and continues with the next file.
func (a *archive) rotate(ctx context.Context, next string) error {
	if a.buffer.Len() == 0 {
		a.segment = manifest.Segment{Format: manifest.Format, Timeline: a.head.Timeline, File: a.file, From: a.tracker.Offset, To: a.tracker.Offset, FileTime: a.began,
			Continues: a.last, FirstTime: a.began, LastTime: a.began, NotBefore: a.notBefore(a.tracker.Offset)}
	}
	a.segment.Next = next
	if err := a.write(ctx); err != nil {
		return err
	}
	a.file, a.tracker = next, Tracker{Offset: FirstOffset}
	return nil
}

// reached records in the head that the archive has all commits up to a time.
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

// failed converts an error of the replication protocol to an error with a reason.
func (a *archive) failed(err error) error {
	switch server.Code(err) {
	case mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG:
		return contract.Errorf(contract.ReasonGap, "server %s cannot send %s from offset %d: %w", a.Server.Address, a.file, a.tracker.Offset, err)
	case mysql.ER_ACCESS_DENIED_ERROR, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR:
		return contract.Errorf(contract.ReasonAccessDenied, "read the binary log of server %s as user %s: %w", a.Server.Address, a.Server.User, err)
	}
	return contract.Errorf(contract.ReasonServerUnreachable, "read the binary log of server %s: %w", a.Server.Address, err)
}

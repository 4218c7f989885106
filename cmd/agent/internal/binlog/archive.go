// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"filippo.io/age"
	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Options selects the server to archive and the store.
type Options struct {
	Server     server.Options
	Store      store.Store
	Recipients []age.Recipient
	// Keys holds Recipients as text.
	Keys []string
	// Source names the data, as in manifests.
	Source string
	// Interval limits the age of data that is not archived yet. A segment that reaches MaxBytes is written earlier.
	Interval time.Duration
	MaxBytes int
	// ServerID identifies the archive among the server's replicas; 0: a random number.
	ServerID uint32
	// First is the first file of the first timeline, if the server still has that file; "" for the oldest file.
	First string
	// Lock names the lock that the archive holds on the server; "" for the default name.
	Lock string
	// Archived is called with the new head each time the archive has reached the end of the server's log; it may be nil.
	Archived func(manifest.Head)
}

const lockName = "d3os-archive"

// archive is the state of one connection to the server.
type archive struct {
	Options
	conn    *server.Conn
	head    manifest.Head
	newest  string             // name of the newest timeline in the store
	last    *contract.Position // the end of the last segment; nil before the first
	tracker Tracker
	file    string
	began   time.Time // when the server began the file
	resumed time.Time // when the server began the file, according to the archive; zero if the archive has no part of the file
	buffer  bytes.Buffer
	segment manifest.Segment
	since   time.Time // time of the first event in the buffer
}

// Archive copies the server's binary log to the store until ctx ends, or the connection breaks. A later call continues at the position in
// the store. If the server no longer has the next event, Archive begins a new timeline and fails with Gap.
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
	if err := a.hasAll(); err != nil {
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
			return a.restart(ctx)
		}
		// After the caller's cancellation, store the events that were received.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return a.flush(last)
	}
	return err
}

func (a *archive) lockName() string { return cmp.Or(a.Lock, lockName) }

func (a *archive) lock() error {
	if err := a.conn.Do("SET SESSION wait_timeout = 604800"); err != nil {
		return err
	}
	got, err := a.conn.Value("SELECT GET_LOCK(" + server.Literal(a.lockName()) + ", 5)")
	if err == nil && got != "1" {
		err = contract.Errorf(contract.ReasonBusy, "another agent archives the binary log of this server")
	}
	return err
}

// hasAll refuses two kinds of binary logs: a log that lacks changes, and a log with statements whose replay may change
// other rows than the server did.
func (a *archive) hasAll() error {
	row, err := a.conn.Named(a.conn.Version.Words().MasterStatus)
	if err != nil {
		return err
	}
	if left := row["Binlog_Do_DB"] + row["Binlog_Ignore_DB"]; left != "" {
		return contract.Errorf(contract.ReasonRefused, "the binary log of server %s leaves out databases (binlog_do_db, binlog_ignore_db: %s), so a restore to a point in time would lack changes of the omitted databases: remove the filter", a.Server.Address, left)
	}
	format, err := a.conn.Variable("binlog_format")
	if err == nil && format == "STATEMENT" {
		err = contract.Errorf(contract.ReasonRefused, "the binary log of server %s has statements (binlog_format=STATEMENT), so a replay may change other rows than the server did: set binlog_format to ROW", a.Server.Address)
	}
	return err
}

// resume reads the end of the archive from the store, and checks whether the server still has the next event.
func (a *archive) resume(ctx context.Context) error {
	rows, err := a.conn.Rows("SHOW BINARY LOGS")
	if err != nil {
		if server.Code(err) == mysql.ER_NO_BINARY_LOGGING {
			return contract.Errorf(contract.ReasonNoBinaryLog, "server %s keeps no binary log, so there is nothing to archive: turn the binary log on: %w", a.Server.Address, err)
		}
		return err
	}
	if len(rows) == 0 {
		return contract.Errorf(contract.ReasonNoBinaryLog, "server %s keeps no binary log, so there is nothing to archive: turn the binary log on", a.Server.Address)
	}
	heads, err := Heads(ctx, a.Store)
	if err != nil {
		return err
	}
	if len(heads) > 0 {
		a.newest = heads[0].Timeline
	}
	for _, head := range heads {
		if head.Source != a.Source || head.ByGTID {
			continue
		}
		if reason := contract.ReasonOf(head.Lost); head.Lost != nil && reason != contract.ReasonDamaged {
			return head.Lost
		}
		t, err := a.read(ctx, head)
		if err != nil {
			return err
		}
		if t.Broken != nil {
			return a.newTimeline(ctx, rows[0][0], "Damaged", "the archive is damaged")
		}
		a.head = head
		a.head.Format = manifest.Format
		if len(t.Segments) == 0 {
			return a.from(contract.Position{File: rows[0][0], Offset: FirstOffset}, time.Time{})
		}
		end := t.end()
		a.last = &end
		began := t.Segments[len(t.Segments)-1].FileTime
		if end.Offset == FirstOffset {
			if err := a.continues(ctx, t.Segments[len(t.Segments)-1], rows); err != nil {
				return err
			}
			began = time.Time{}
		}
		for _, row := range rows {
			size, _ := strconv.ParseUint(row[1], 10, 64) // the server's number is valid
			if row[0] == end.File && size >= end.Offset {
				return a.from(end, began)
			}
		}
		if newest := rows[len(rows)-1][0]; !Older(end.File, newest) {
			return a.newTimeline(ctx, rows[0][0], "Reset", "the server has begun its binary log again")
		}
		return a.newTimeline(ctx, rows[0][0], "Gap", "the server has removed files that were not archived")
	}
	return a.begin(ctx, a.first(rows), "First")
}

// first returns the first file of the first timeline.
func (a *archive) first(rows [][]string) string {
	for _, row := range rows {
		if row[0] == a.First {
			return a.First
		}
	}
	return rows[0][0]
}

// read reads a timeline. A store may list new objects late. Therefore read lists again before it reports a missing object.
func (a *archive) read(ctx context.Context, head manifest.Head) (*Timeline, error) {
	for try := 1; ; try++ {
		t, err := Read(ctx, a.Store, head, "")
		if err != nil || t.Broken == nil || try == 4 {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(a.Interval):
		}
	}
}

// continues checks that the server still has the file of the last segment. If not, it begins a new timeline. After a reset
// of the log, the server uses the same file names again. So continues also compares the times at which the files began.
func (a *archive) continues(ctx context.Context, last manifest.Segment, rows [][]string) error {
	for _, row := range rows {
		if row[0] != last.File {
			continue
		}
		began, err := a.conn.Began(ctx, last.File)
		if err != nil || began.Equal(last.FileTime) {
			return err
		}
		return a.newTimeline(ctx, rows[0][0], "Reset", "the server has begun its binary log again")
	}
	return a.newTimeline(ctx, rows[0][0], "Gap", "the server has removed the last archived file, so the file that follows is unknown")
}

// restart begins a new timeline at the server's oldest file. The next Archive continues there.
func (a *archive) restart(ctx context.Context) error {
	files, err := a.conn.BinaryLogs()
	if err != nil {
		return err
	}
	return a.newTimeline(ctx, files[0], "Reset", "the server has begun its binary log again")
}

// newTimeline begins a timeline that does not continue the last one, and returns the error Gap.
func (a *archive) newTimeline(ctx context.Context, file, reason, text string) error {
	if err := a.begin(ctx, file, reason); err != nil {
		return err
	}
	return contract.Errorf(contract.ReasonGap, "%s, so timeline %s was begun: points in time on this timeline can be restored only after the next backup", text, a.newest)
}

// begin begins a timeline.
func (a *archive) begin(ctx context.Context, file, reason string) error {
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	// Timeline names sort by age, even if several timelines begin within one second.
	name := manifest.IDAfter(a.newest, time.Now(), random)
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

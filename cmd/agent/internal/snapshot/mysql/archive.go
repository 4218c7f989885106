// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"filippo.io/age"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Archive copies the transactions of a database to a store. It reads from a voter, and archives only transactions that no failover can
// lose.
type Archive struct {
	Cluster
	Store      store.Store
	Recipients []age.Recipient
	// Keys holds Recipients as text.
	Keys []string
	// Source identifies the data, and Writer the resource. Epochs are compared only between primaries of the same Writer.
	Source, Writer string
	// Interval limits the age of transactions that are not archived yet. A segment ends earlier if it reaches MaxBytes, and a file if it
	// reaches MaxFile.
	Interval          time.Duration
	MaxBytes, MaxFile int
	// Archived is called with each new head of the archive; it may be nil.
	Archived func(manifest.Head)
	// Unproven makes the archive store every transaction of the primary without proof. Tests use it to show that a failover loses
	// archived transactions without the proof.
	Unproven bool
}

// errMoved reports that the archive must read from another member.
var errMoved = errors.New("another member is read from now on")

// follower reads from one member for the archive, until it must read from another one.
type follower struct {
	Archive
	head   manifest.Head
	newest string // name of the newest timeline in the store
	// have is the set of the transactions before the timeline, in the timeline and in the buffer.
	have binlog.Set
	last *contract.Position // end of the last segment; nil before the first
	// latest is the latest commit time of earlier transactions. high is the later of latest and the last time that the archive has reached.
	latest, high time.Time
	proof        proof
	stream
	file
}

// Run archives until the context ends or a failure occurs. It begins a new timeline and returns ReasonGap in three cases:
// no member has the next transactions any more, the database has lost archived transactions, or the archive is damaged.
func (a *Archive) Run(ctx context.Context) error {
	for {
		f := &follower{Archive: *a}
		err := f.run(ctx)
		f.close()
		if ctx.Err() != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return f.flush(last)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) run(ctx context.Context) error {
	members, problem := f.look(ctx)
	p, err := f.prove(members)
	if err != nil {
		if problem != nil && contract.ReasonOf(err) == contract.ReasonServerUnreachable {
			err = contract.Errorf(contract.ReasonServerUnreachable, "%w; %w", err, problem)
		}
		return err
	}
	f.proof = p
	if _, err := f.Store.Sweep(ctx, manifest.BinLogs); err != nil {
		return err
	}
	if err := f.resume(ctx); err != nil {
		return err
	}
	if err := f.continues(ctx); err != nil {
		return err
	}
	if f.from, f.login, err = f.choose(ctx); err != nil {
		return err
	}
	return f.follow(ctx)
}

// prove calls prove on the members. With Unproven, which only tests set, it needs no voter.
func (f *follower) prove(members []member) (proof, error) {
	p, err := prove(members)
	if f.Unproven && p.committed != nil {
		return p, nil
	}
	return p, err
}

// resume finds the end of the archived transactions in the store.
func (f *follower) resume(ctx context.Context) error {
	heads, err := binlog.Heads(ctx, f.Store)
	if err != nil {
		return err
	}
	if len(heads) > 0 {
		f.newest = heads[0].Timeline
	}
	i := slices.IndexFunc(heads, func(h manifest.Head) bool { return h.Source == f.Source && h.ByGTID })
	if i < 0 {
		return f.begin(ctx, "First")
	}
	if heads[i].Lost != nil && contract.ReasonOf(heads[i].Lost) != contract.ReasonDamaged {
		return heads[i].Lost
	}
	t, err := f.read(ctx, heads[i])
	if err != nil {
		return err
	}
	if t.Broken != nil || heads[i].Lost != nil {
		return f.newTimeline(ctx, "Damaged", fmt.Sprintf("the archive is damaged: %v", errors.Join(t.Broken, heads[i].Lost)))
	}
	f.head = heads[i]
	if _, f.have, err = t.Sets(); err != nil {
		return err
	}
	f.last, f.latest = t.End(), t.CommittedBy()
	if f.high = f.head.Time; f.latest.After(f.high) {
		f.high = f.latest
	}
	return nil
}

// read reads a timeline. A store may list new objects late. Therefore read looks for a missing object again before it reports that the
// object is missing.
func (f *follower) read(ctx context.Context, head manifest.Head) (*binlog.Timeline, error) {
	for try := 1; ; try++ {
		t, err := binlog.Read(ctx, f.Store, head, "")
		if err != nil || t.Broken == nil || try == 4 {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(f.Interval):
		}
	}
}

// continues compares the archive with the primary. A primary with an older epoch than the archive is outdated. If the primary lacks
// archived transactions, the database has lost them, and the end of the timeline is superseded.
func (f *follower) continues(ctx context.Context) error {
	epoch := f.proof.primary.State.Epoch
	if f.head.Writer == f.Writer && epoch < f.head.Epoch {
		return contract.Errorf(contract.ReasonServerUnreachable, "member %d is the primary of epoch %d, but the archive has transactions of epoch %d: nothing is archived until the newer primary answers",
			f.proof.primary.ordinal, epoch, f.head.Epoch)
	}
	lost := f.have.Minus(f.proof.committed)
	if len(lost) == 0 {
		if f.head.Writer == f.Writer && f.head.Epoch == epoch {
			return nil
		}
		f.head.Writer, f.head.Epoch = f.Writer, epoch
		return f.save(ctx)
	}
	at, err := f.lostFrom(ctx, lost)
	if err != nil {
		return err
	}
	f.head.Superseded = &manifest.Superseded{At: at, GTIDs: lost.String(), Epoch: epoch}
	if err := f.save(ctx); err != nil {
		return err
	}
	return f.newTimeline(ctx, "Superseded", fmt.Sprintf("the primary of epoch %d lacks %s, which timeline %s has after %s: the database has lost these transactions, or was restored", epoch, brief(nonEmpty(lost)), f.head.Timeline, at.Format(time.RFC3339Nano)))
}

// nonEmpty returns the text of a set, shortened for a message, as the only element of a list.
func nonEmpty(s binlog.Set) []string {
	text := s.String()
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return []string{text}
}

// lostFrom returns a time before which the timeline has no transaction that the database has lost. The agent has no private key to read
// archived transactions. Therefore the result is the earliest commit time in the first segment with a lost transaction.
func (f *follower) lostFrom(ctx context.Context, lost binlog.Set) (time.Time, error) {
	t, err := f.read(ctx, f.head)
	if err != nil {
		return time.Time{}, err
	}
	for _, s := range t.Segments {
		executed, err := binlog.ParseSet(s.Executed)
		if err != nil {
			return time.Time{}, err
		}
		if len(executed.And(lost)) > 0 {
			return s.FirstCommit, nil
		}
	}
	return f.head.From, nil // the lost transactions are older than the timeline
}

// newTimeline begins a timeline that does not continue the last timeline. It always returns an error: ReasonGap, or the error of begin.
func (f *follower) newTimeline(ctx context.Context, reason, text string) error {
	if err := f.begin(ctx, reason); err != nil {
		return err
	}
	return contract.Errorf(contract.ReasonGap, "%s, so timeline %s was begun: points in time on this timeline can be restored only after the next backup", text, f.newest)
}

// begin begins a timeline after all transactions that are safe now.
func (f *follower) begin(ctx context.Context, reason string) error {
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	name := manifest.IDAfter(f.newest, time.Now(), random)
	f.newest, f.last, f.have, f.latest = name, nil, f.proof.safe.Clone(), f.proof.primary.State.Clock
	f.high = f.latest
	f.head = manifest.Head{Format: manifest.FormatGTID, Timeline: name, Source: f.Source, Reason: reason, ByGTID: true, Begin: f.have.String(),
		From: f.high, Epoch: f.proof.primary.State.Epoch, Writer: f.Writer}
	return f.save(ctx)
}

func (f *follower) save(ctx context.Context) error {
	text, err := manifest.Encode(&f.head)
	if err != nil {
		return err
	}
	return f.Store.Replace(ctx, manifest.TimelineFolder(f.head.Timeline)+manifest.HeadName, text)
}

// choose returns the member to read from: a voter that still has every transaction that the archive lacks, or else the primary, under the
// same condition. It begins a new timeline if no member has all of these transactions.
func (f *follower) choose(ctx context.Context) (member, server.Options, error) {
	candidates := append(slices.Clone(f.proof.voters), f.proof.primary)
	if f.proof.primary.State.Demands == 0 || f.Unproven {
		candidates = []member{f.proof.primary}
	}
	var problem error
	for _, m := range candidates {
		login := f.loginOf(m)
		has, err := f.keeps(ctx, m, login)
		if has {
			return m, login, nil
		}
		problem = errors.Join(problem, err)
	}
	if problem != nil {
		return member{}, server.Options{}, problem
	}
	return member{}, server.Options{}, f.newTimeline(ctx, "Gap", "the members have removed transactions from their logs before these transactions were archived")
}

func (f *follower) loginOf(m member) server.Options {
	return server.Options{Address: net.JoinHostPort(f.Host(m.ordinal), strconv.Itoa(f.ServerPort)), User: mysql.ArchiveAccount, Password: f.Password}
}

// keeps reports whether a member's log still has every transaction that the archive lacks.
func (f *follower) keeps(ctx context.Context, m member, login server.Options) (bool, error) {
	c, err := server.Connect(ctx, login)
	if err != nil {
		return false, fmt.Errorf("archive the log of member %d: %w", m.ordinal, err)
	}
	defer c.Close()
	f.version = c.Version
	rows, err := c.Rows("SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_purged")
	switch {
	case err != nil:
		return false, fmt.Errorf("archive the log of member %d: %w", m.ordinal, err)
	case rows[0][0] != m.State.Server:
		return false, contract.Errorf(contract.ReasonServerUnreachable, "archive the log of member %d: its address leads to server %s, but its agent runs server %s", m.ordinal, rows[0][0], m.State.Server)
	}
	purged, err := binlog.ParseSet(rows[0][1])
	return err == nil && f.have.Contains(purged), err
}

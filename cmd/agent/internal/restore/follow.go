// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Follow applies the archive after the copy's position, and returns the number of applied transactions. The server may still run when
// Follow returns.
func (c *Copy) Follow(ctx context.Context) (int64, error) {
	before := c.Transactions
	if err := c.recover(ctx); err != nil {
		return 0, err
	}
	for {
		s, err := c.nextBatch(ctx)
		if err != nil || s == nil {
			return c.Transactions - before, err
		}
		if err := c.apply(ctx, s); err != nil {
			return c.Transactions - before, err
		}
		if s.isRead() {
			return c.Transactions - before, nil
		}
	}
}

// nextBatch stops the server and writes the relay logs of the next batch. It returns nil if there is none.
func (c *Copy) nextBatch(ctx context.Context) (*spool, error) {
	plan, err := c.plan(ctx)
	if err != nil || c.Batch == nil && !plan.hasMore(*c.Position, c.seen) {
		return nil, err
	}
	if c.i.cmd != nil {
		if err := c.stop(ctx); err != nil {
			return nil, err
		}
	}
	s := &spool{plan: plan, folder: c.i.Data, stop: *c.Position, bound: defaultBound}
	if c.target.Batch != 0 {
		s.bound = c.target.Batch
	}
	f := &following{resumed: *c.Position != *c.source.Backup.Position, position: *c.Position, isAtomic: true, isStrict: c.i.Version.AtLeast(8, 0, 0)}
	s.copying = f
	for _, name := range c.Prepared {
		if s.prepared.later == nil {
			s.prepared.later = map[string]bool{}
		}
		s.prepared.later[name] = true
	}
	if c.Batch != nil {
		plan.until.Position = &c.Batch.To
		f.seek = c.Batch.seeking()
	}
	s.remove()
	applies, err := s.batch(ctx)
	if err != nil {
		s.remove()
		return nil, c.unfit(err)
	}
	if !applies {
		c.seen = plan.end()
		return nil, nil
	}
	if c.Batch != nil && s.stop != c.Batch.To {
		s.remove()
		return nil, beginAgain(contract.ReasonDamaged, "the log that was being applied ends at %s:%d, not at %s:%d", s.stop.File, s.stop.Offset, c.Batch.To.File, c.Batch.To.Offset)
	}
	return s, c.place(s)
}

// unfit converts the error of an unusable log to an ErrBeginAgain. It returns other errors unchanged.
func (c *Copy) unfit(err error) error {
	reason := contract.ReasonOf(err)
	if slices.Contains([]contract.Reason{contract.ReasonNotFound, contract.ReasonDamaged, contract.ReasonLoadFailed}, reason) {
		return beginAgain(reason, "%w", err)
	}
	return err
}

// hasMore reports whether the unread part of the archive may have a transaction after a position.
func (p *Plan) hasMore(at, seen contract.Position) bool {
	for _, segment := range p.timeline.Segments {
		end := contract.Position{File: segment.File, Offset: segment.To}
		if segment.Transactions > 0 && binlog.Before(at, end) && (seen.File == "" || binlog.Before(seen, end)) {
			return true
		}
	}
	return false
}

// plan reads the archive starting at the copy's position.
func (c *Copy) plan(ctx context.Context) (*Plan, error) {
	heads, err := binlog.Heads(ctx, c.source.Store)
	if err != nil {
		return nil, err
	}
	if len(heads) == 0 {
		return nil, contract.Errorf(contract.ReasonNotFound, "no part of the source's log has arrived yet")
	}
	if c.Timeline == "" {
		c.Timeline = heads[0].Timeline
	}
	if heads[0].Timeline != c.Timeline {
		return nil, beginAgain(contract.ReasonGap, "the source has removed a part of its log that was not copied")
	}
	timeline, err := binlog.Read(ctx, c.source.Store, heads[0], c.Position.File)
	if err != nil {
		return nil, err
	}
	if timeline.Broken != nil {
		return nil, beginAgain(contract.ReasonDamaged, "%w", timeline.Broken)
	}
	if len(timeline.Segments) > 0 && timeline.Segments[0].File != c.Position.File {
		return nil, beginAgain(contract.ReasonGap, "the source has removed file %s of its log before the whole file was copied", c.Position.File)
	}
	if len(timeline.Segments) == 0 {
		return nil, contract.Errorf(contract.ReasonNotFound, "no part of file %s of the source's log has arrived yet", c.Position.File)
	}
	if began := c.source.Backup.LogBegan; *c.Position == *c.source.Backup.Position && !began.IsZero() && !timeline.Segments[0].FileTime.Equal(began) {
		return nil, beginAgain(contract.ReasonGap, "the source has begun its log again")
	}
	backup := *c.source.Backup
	backup.Position, backup.PreparedFrom = c.Position, ""
	source := c.source
	source.Backup = &backup
	return &Plan{source: source, timeline: timeline}, nil
}

// apply makes the server apply a batch, and records the result.
func (c *Copy) apply(ctx context.Context, s *spool) error {
	args := append(applier(c.i.Version), c.i.Replay...)
	if s.gtid {
		args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
	}
	if c.Batch == nil {
		c.Batch = &Batch{To: s.stop, IsAtomic: s.copying.isAtomic}
	}
	if err := c.start(ctx, args...); err != nil {
		return err
	}
	conn, err := c.i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := c.prepare(conn, s); err != nil {
		return err
	}
	if err := s.applied(ctx, conn); err != nil {
		return c.unfit(err)
	}
	for _, statement := range s.events {
		s.statuses.apply(statement)
	}
	if c.GTID, err = noteOf(conn); err != nil {
		return err
	}
	c.keep(s.statuses)
	c.Position, c.Transactions, c.Batch = &contract.Position{File: s.stop.File, Offset: s.stop.Offset}, c.Transactions+s.count, nil
	c.Prepared = slices.Sorted(maps.Keys(s.prepared.later))
	for name := range s.prepared.open {
		c.Prepared = append(c.Prepared, name)
	}
	if err := flushed(conn); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	return forget(conn)
}

// flushed waits until all applied transactions are on the disk. (While innodb_flush_log_at_trx_commit is 0, MariaDB's FLUSH does nothing.)
func flushed(conn *server.Conn) error {
	for _, statement := range []string{"SET GLOBAL innodb_flush_log_at_trx_commit = 1", "FLUSH ENGINE LOGS", "SET GLOBAL innodb_flush_log_at_trx_commit = 0"} {
		if err := conn.Do(statement); err != nil {
			return err
		}
	}
	return nil
}

// prepare configures the started server to apply a batch.
func (c *Copy) prepare(conn *server.Conn, s *spool) error {
	if err := inZone(conn, c.source.Backup); err != nil {
		return err
	}
	if err := unfiltered(conn); err != nil {
		return err
	}
	if err := c.filter(conn); err != nil {
		return err
	}
	if s.statuses = c.statuses(); c.Events == nil {
		var err error
		if s.statuses, err = readStatuses(conn); err != nil {
			return err
		}
		c.keep(s.statuses)
	}
	return c.save()
}

// filter makes the applier skip all schemas except the copied schemas and the schema mysql, which contains the accounts.
func (c *Copy) filter(conn *server.Conn) error {
	if len(c.only) == 0 {
		return nil
	}
	var patterns []string
	for _, name := range append([]string{"mysql"}, c.only...) {
		patterns = append(patterns, strings.NewReplacer("_", `\_`, "%", `\%`).Replace(name)+".%")
	}
	if conn.Version.Flavour == server.MariaDB {
		return conn.Do("SET GLOBAL replicate_wild_do_table = " + server.Literal(strings.Join(patterns, ",")))
	}
	for i, pattern := range patterns {
		patterns[i] = server.Literal(pattern)
	}
	return conn.Do("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE = (" + strings.Join(patterns, ", ") + ")")
}

func (c *Copy) statuses() statuses {
	s := statuses{}
	for _, event := range c.Events {
		s[[2]string{event[0], event[1]}] = event[2]
	}
	return s
}

func (c *Copy) keep(s statuses) {
	c.Events = [][3]string{}
	for name, status := range s {
		c.Events = append(c.Events, [3]string{name[0], name[1], status})
	}
}

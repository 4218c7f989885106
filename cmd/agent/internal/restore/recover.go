// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// noteOf returns gtid_slave_pos, in which MariaDB stores its replication position. It returns "" for MySQL, which stores its position in
// tables, as a position in the relay logs.
func noteOf(conn *server.Conn) (string, error) {
	if conn.Version.Flavour != server.MariaDB {
		return "", nil
	}
	return conn.Value("SELECT @@GLOBAL.gtid_slave_pos")
}

// recover starts the server of a copy after the agent was killed, so that InnoDB recovers. Then it reads the applier's
// position in the batch from the server's tables. The server updates this position in each transaction that it applies.
// If the position is not reliable, recover fails with ErrBeginAgain.
func (c *Copy) recover(ctx context.Context) error {
	if !c.IsRunning || c.i.cmd != nil {
		return nil
	}
	if c.Batch != nil && !c.Batch.IsAtomic {
		return beginAgain(contract.ReasonFailed, "the agent was killed during a change of definitions, so it is unknown whether the change was applied")
	}
	if err := c.i.Start(ctx, append(durable, applier(c.i.Version)...)...); err != nil {
		return beginAgain(contract.ReasonFailed, "start the server of a copy whose agent was killed: %w", err)
	}
	conn, err := c.i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := onlyTransactional(conn); err != nil {
		return err
	}
	if c.Batch != nil {
		if err := c.Batch.locate(conn, c.GTID); err != nil {
			return err
		}
		if err := c.save(); err != nil { // the next step removes MySQL's position
			return err
		}
	}
	if err := forget(conn); err != nil {
		return beginAgain(contract.ReasonFailed, "the server of a copy whose agent was killed: %w", err)
	}
	conn.Close()
	return c.stop(ctx)
}

// onlyTransactional returns an error if a table may have an incomplete transaction after a kill.
func onlyTransactional(conn *server.Conn) error {
	tables, err := conn.Tables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table.Engine != "InnoDB" {
			return beginAgain(contract.ReasonFailed, "the agent was killed, and table %s of engine %s may lack rows or have them twice", table.Quoted(), table.Engine)
		}
	}
	return nil
}

// locate finds the server's position in the batch. began is the position that MariaDB had stored before the batch.
func (b *Batch) locate(conn *server.Conn, began string) error {
	if conn.Version.Flavour == server.MariaDB {
		note, err := noteOf(conn)
		if err == nil && note != began {
			b.Note = note
		}
		return err
	}
	for _, table := range []string{"slave_relay_log_info", "slave_worker_info"} {
		rows, err := conn.Rows("SELECT Relay_log_name, Relay_log_pos FROM mysql." + table)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row[0] == "" {
				continue
			}
			file, fileErr := strconv.Atoi(row[0][strings.LastIndexByte(row[0], '.')+1:])
			offset, err := strconv.ParseUint(row[1], 10, 64)
			if err != nil || fileErr != nil || file < 1 {
				return beginAgain(contract.ReasonFailed, "the server has stored the position %s:%s in its relay logs, which is not valid", row[0], row[1])
			}
			if at := b.From; at == nil || file-1 > at.File || file-1 == at.File && offset > at.Offset {
				b.From = &RelayPoint{file - 1, offset}
			}
		}
	}
	return nil
}

// seeking returns the GTIDs in the server's stored position.
func (b *Batch) seeking() map[string]bool {
	seek := map[string]bool{}
	for gtid := range strings.SplitSeq(b.Note, ",") {
		seek[strings.TrimSpace(gtid)] = true
	}
	return seek
}

// place makes the batch of the killed agent begin at the server's position.
func (c *Copy) place(s *spool) error {
	if c.Batch == nil {
		return nil
	}
	at := c.Batch.From
	if c.Batch.Note != "" {
		if at = s.copying.found; at == nil {
			return beginAgain(contract.ReasonFailed, "the server has applied %s, which is not in the log that was being applied", c.Batch.Note)
		}
	}
	if at == nil {
		return nil
	}
	if at.File >= len(s.files) || at.File == len(s.files)-1 && at.Offset > s.end() {
		return beginAgain(contract.ReasonFailed, "the server's position is after the end of the log that was being applied")
	}
	s.first, s.from = at.File, at.Offset
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Position is a place in a binary log.
type Position struct {
	File   string `json:"file,omitempty"`
	Offset uint64 `json:"offset,omitempty"`
}

// The roles that a State reports.
const (
	RoleReplica = "Replica"
	RolePrimary = "Primary"
)

// State is what a member's server says, and what the member promised. Sets of GTIDs are in the notation of MySQL, and may name
// a range twice.
type State struct {
	Server   string `json:"server"`
	Role     string `json:"role,omitempty"`
	Promised int64  `json:"promised,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Executed are the transactions that were applied, and Received those and what the relay log has.
	Executed string `json:"executed"`
	Received string `json:"received"`
	Writable bool   `json:"writable,omitempty"`

	// Of a primary.
	Epoch   int64    `json:"epoch,omitempty"`
	Demands int      `json:"demands,omitempty"`
	Cut     []int    `json:"cut,omitempty"`
	CutEnd  Position `json:"cutEnd,omitzero"`
	End     Position `json:"end,omitzero"`
	Waiting int      `json:"waiting,omitempty"`
	// Unprotected reports whether the primary demands acknowledgements and semi-sync is off, or a promotion failed half-way: the
	// server must be killed.
	Unprotected bool `json:"unprotected,omitempty"`

	// Of a replica.
	Source       int      `json:"source,omitempty"`
	Acknowledges bool     `json:"acknowledges,omitempty"`
	Connected    bool     `json:"connected,omitempty"`
	ReadTo       Position `json:"readTo,omitzero"`
	Lag          int      `json:"lag,omitempty"`
	// Problem is the last error of the receiver or the applier.
	Problem string `json:"problem,omitempty"`
}

// State asks the server.
func (m *Member) State(ctx context.Context) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return State{}, err
	}
	s := State{Promised: m.notes.Promised, Revision: m.notes.Revision, Unprotected: m.unfinished}
	err := m.session(ctx, func(c *server.Conn) error {
		var err error
		if s.Server, err = c.Value("SELECT @@GLOBAL.server_uuid"); err != nil {
			return fmt.Errorf("ask for the server's UUID: %w", err)
		}
		readOnly, err := c.Value("SELECT @@GLOBAL.super_read_only")
		if err != nil {
			return fmt.Errorf("ask whether the server is writable: %w", err)
		}
		s.Writable = readOnly == "0"
		// The relay log is read before what was executed: what leaves it in between is in the latter.
		row, err := c.Named("SHOW REPLICA STATUS")
		if err != nil {
			return fmt.Errorf("ask for the replication: %w", err)
		}
		if s.Executed, err = c.Value("SELECT @@GLOBAL.gtid_executed"); err != nil {
			return fmt.Errorf("ask for transactions: %w", err)
		}
		s.Executed = strings.ReplaceAll(s.Executed, "\n", "")
		s.Received = s.Executed
		if row != nil {
			m.replica(&s, row)
		}
		if m.primary != 0 {
			return m.ofPrimary(c, &s)
		}
		return nil
	})
	return s, err
}

// replica adds what SHOW REPLICA STATUS says.
func (m *Member) replica(s *State, row map[string]string) {
	s.Received = strings.Trim(s.Executed+","+strings.ReplaceAll(row["Retrieved_Gtid_Set"], "\n", ""), ",")
	s.Connected = row["Replica_IO_Running"] == "Yes"
	if receives(row) {
		s.Role = RoleReplica
	}
	s.Source, s.Acknowledges = m.source.Ordinal, m.acks
	s.ReadTo.File = row["Source_Log_File"]
	s.ReadTo.Offset, _ = strconv.ParseUint(row["Read_Source_Log_Pos"], 10, 64) // 0 is before everything
	s.Lag, _ = strconv.Atoi(row["Seconds_Behind_Source"])                      // NULL while it does not run, which Connected and Problem show
	if s.Problem = row["Last_SQL_Error"]; s.Problem == "" {
		s.Problem = row["Last_IO_Error"]
	}
}

func (m *Member) ofPrimary(c *server.Conn, s *State) error {
	s.Role, s.Epoch, s.Demands, s.CutEnd, s.Cut = RolePrimary, m.primary, m.demands, m.cutEnd, unique(append(append([]int{}, m.cutVoters...), m.cutOthers...))
	end, err := c.Position()
	if err != nil {
		return fmt.Errorf("ask for the end of the binary log: %w", err)
	}
	if end != nil {
		s.End = Position{File: end.File, Offset: end.Offset}
	}
	waiting, err := status(c, "Rpl_semi_sync_source_wait_sessions")
	if err != nil {
		return fmt.Errorf("ask for waiting sessions: %w", err)
	}
	s.Waiting, _ = strconv.Atoi(waiting) // no number: the plugin is not there, which the next status shows
	on, err := status(c, "Rpl_semi_sync_source_status")
	if err != nil {
		return fmt.Errorf("ask for semi-sync: %w", err)
	}
	s.Unprotected = m.unfinished || m.demands > 0 && on != "ON"
	return nil
}

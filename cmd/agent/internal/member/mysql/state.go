// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// State reads the state of the server.
func (m *Member) State(ctx context.Context) (mysqlmember.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.Volume.Notes()
	if err != nil {
		return mysqlmember.State{}, err
	}
	if m.ended {
		return mysqlmember.State{}, contract.Errorf(contract.ReasonServerUnreachable, "the server has ended")
	}
	s := mysqlmember.State{Promised: n.Promised, Revision: n.Revision, Unprotected: m.unfinished}
	err = m.session(ctx, func(c *server.Conn) error {
		var err error
		if s.Server, err = c.Value("SELECT @@GLOBAL.server_uuid"); err != nil {
			return fmt.Errorf("read the server's UUID: %w", err)
		}
		if s.Version, err = c.Value("SELECT SUBSTRING_INDEX(@@GLOBAL.version, '-', 1)"); err != nil {
			return fmt.Errorf("read the server's version: %w", err)
		}
		readOnly, err := c.Value("SELECT @@GLOBAL.super_read_only")
		if err != nil {
			return fmt.Errorf("check whether the server is writable: %w", err)
		}
		s.Writable = readOnly == "0"
		// Read the relay log before the executed transactions. A transaction that is applied between the two reads is then among the
		// executed ones.
		row, err := c.Named("SHOW REPLICA STATUS")
		if err != nil {
			return fmt.Errorf("read the replication status: %w", err)
		}
		if s.Executed, err = c.Value("SELECT @@GLOBAL.gtid_executed"); err != nil {
			return fmt.Errorf("read the transactions: %w", err)
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

// replica sets the fields of the state that describe a replica. row is the result of SHOW REPLICA STATUS.
func (m *Member) replica(s *mysqlmember.State, row map[string]string) {
	s.Received = strings.Trim(s.Executed+","+strings.ReplaceAll(row["Retrieved_Gtid_Set"], "\n", ""), ",")
	if s.Connected = row["Replica_IO_Running"] == "Yes"; s.Connected {
		s.SourceServer = row["Source_UUID"]
	}
	if receives(row) {
		s.Role = mysqlmember.RoleReplica
	}
	s.Source, s.Personal, s.Acknowledges = m.source.Ordinal, m.source.Personal, m.acks
	s.ReadTo.File = row["Source_Log_File"]
	s.ReadTo.Offset, _ = strconv.ParseUint(row["Read_Source_Log_Pos"], 10, 64) // 0 is before every position
	s.Lag, _ = strconv.Atoi(row["Seconds_Behind_Source"])                      // NULL while replication does not run; then see Connected and Problem
	if s.Problem = row["Last_SQL_Error"]; s.Problem == "" {
		s.Problem = row["Last_IO_Error"]
	}
	s.Damage = m.damage(row)
	if s.Problem == "" && s.Role == mysqlmember.RoleReplica && row["Replica_SQL_Running"] != "Yes" {
		s.Problem = "the applier does not run" // the lag is unknown
	}
}

func (m *Member) ofPrimary(c *server.Conn, s *mysqlmember.State) error {
	s.Role, s.Epoch, s.Demands, s.CutEnd, s.Cut = mysqlmember.RolePrimary, m.primary, m.demands, m.cutEnd, unique(append(append([]int{}, m.cutVoters...), m.cutOthers...))
	s.Servers = m.servers()
	var err error
	if s.Clock, err = c.Now(); err != nil {
		return fmt.Errorf("read the server's time: %w", err)
	}
	if s.Purged, err = c.Value("SELECT @@GLOBAL.gtid_purged"); err != nil {
		return fmt.Errorf("read the purged transactions: %w", err)
	}
	s.Purged = strings.ReplaceAll(s.Purged, "\n", "")
	end, err := c.Position()
	if err != nil {
		return fmt.Errorf("read the end of the binary log: %w", err)
	}
	if end != nil {
		s.End = mysqlmember.Position{File: end.File, Offset: end.Offset}
	}
	if s.Waiting, err = waitingSessions(c); err != nil && !errors.Is(err, errNoSemiSync) { // without semi-sync, Unprotected is set below
		return err
	}
	commits, stalled := m.progress.judge(s.Waiting, s.Executed, time.Now())
	s.Commits, s.Stalled = commits, stalled.Milliseconds()
	on, err := status(c, "Rpl_semi_sync_source_status")
	if err != nil {
		return fmt.Errorf("read the state of semi-sync: %w", err)
	}
	acknowledged, err := status(c, "Rpl_semi_sync_source_yes_tx")
	if err != nil {
		return fmt.Errorf("read the acknowledged commits: %w", err)
	}
	m.acknowledged, _ = strconv.ParseUint(acknowledged, 10, 64) // 0 without semi-sync
	s.Unprotected = m.unfinished || m.demands > 0 && on != "ON"
	return nil
}

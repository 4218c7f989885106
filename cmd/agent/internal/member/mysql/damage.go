// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

var (
	// logErrors are the errors of an applier that cannot read its relay log: "Relay log read failure" (two numbers), and "Corrupted
	// replication event was detected".
	logErrors = []string{"1594", "13121", "1610"}
	// dataErrors are the errors of an applier whose data differs from its source's data: a row or an object exists
	// although it should not, or is missing.
	dataErrors = []string{"1032", "1062", "1007", "1008", "1049", "1050", "1051", "1054", "1060", "1061", "1091", "1146", "1304", "1305", "1359", "1360", "1396", "1452", "1537", "1539"}
)

// damage returns the kind of damage of a replica whose applier has ended; "" for none.
func (m *Member) damage(row map[string]string) mysqlmember.Damage {
	switch code := row["Last_SQL_Errno"]; {
	case row["Replica_SQL_Running"] == "Yes":
	case slices.Contains(dataErrors, code), slices.Contains(logErrors, code) && m.renewed:
		return mysqlmember.DamageData
	case slices.Contains(logErrors, code):
		return mysqlmember.DamageLog
	}
	return ""
}

// Renew drops a relay log that the server cannot read. The server then receives from a source the transactions that it has not applied, and
// acknowledges none of them. Before the call, the caller must know two facts: the source has every transaction that the member received,
// and the member is not a voter.
func (m *Member) Renew(ctx context.Context, o mysqlmember.Order, from mysqlmember.Source) error {
	return m.order(ctx, o, func(c *server.Conn) error {
		if m.primary != 0 {
			return contract.Errorf(contract.ReasonRefused, "this member is the primary of epoch %d: it does not follow member %d", m.primary, from.Ordinal)
		}
		row, err := c.Named("SHOW REPLICA STATUS")
		if err != nil {
			return fmt.Errorf("read the replication status: %w", err)
		}
		if m.damage(row) != mysqlmember.DamageLog {
			return contract.Errorf(contract.ReasonRefused, "the relay log is kept: the member can read it, or has renewed it before")
		}
		if err := stopApplier(c); err != nil {
			return err
		}
		m.source, m.acks, m.renewed = mysqlmember.Source{}, false, true
		if err := run(c, "RESET REPLICA ALL"); err != nil {
			return fmt.Errorf("drop the relay log: %w", err)
		}
		return m.receive(c, from, false, "SET GLOBAL rpl_semi_sync_replica_enabled = OFF")
	})
}

// Reapply starts an applier again after an error whose cause may be gone, such as a full disk.
func (m *Member) Reapply(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.primary != 0 || m.unfinished {
		return nil
	}
	return m.session(ctx, func(c *server.Conn) error {
		row, err := c.Named("SHOW REPLICA STATUS")
		if err != nil || !receives(row) || row["Replica_SQL_Running"] != "No" || row["Last_SQL_Errno"] == "0" || m.damage(row) != "" {
			return err
		}
		return wrap(run(c, "START REPLICA SQL_THREAD"), "start the applier again")
	})
}

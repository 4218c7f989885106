// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Replay applies the archive to a stopped instance. The instance runs when Replay returns. bound limits the bytes of a batch of relay logs;
// 0 means defaultBound. The server restarts for each batch.
func (p *Plan) Replay(ctx context.Context, i *Instance, out *Outcome, bound uint64) error {
	s := &spool{plan: p, folder: i.Data, stop: *p.source.Backup.Position, bound: cmp.Or(bound, defaultBound), executed: p.executed.Clone(), all: p.executed.Clone()}
	defer s.remove()
	for {
		applies, err := s.batch(ctx)
		switch {
		case err != nil:
		case applies:
			err = s.apply(ctx, i)
		default:
			if err = i.Start(ctx); err == nil {
				err = i.fillMemory(ctx)
			}
		}
		if err != nil {
			return err
		}
		if s.isRead() {
			break
		}
		if err := errors.Join(i.keepMemory(ctx), i.Stop(ctx)); err != nil {
			return err
		}
		s.remove()
	}
	out.Transactions, out.Later = s.count, &s.later
	if p.base != nil {
		if err := s.isExact(ctx, i); err != nil {
			return err
		}
	}
	if s.count == 0 {
		return nil
	}
	if out.RestoredTo, out.Position = s.last, &s.stop; p.base != nil { // without base, the archive has the server's own files, so a position in them is useful
		out.Position = &contract.Position{GTID: s.executed.Union(p.base).String()}
	}
	return s.settle(ctx, i)
}

// settle sets each scheduled event to the status that it has on the source.
func (s *spool) settle(ctx context.Context, i *Instance) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range s.events {
		s.statuses.apply(statement)
	}
	return s.statuses.settle(conn)
}

// applier returns the options that override the configuration of the applier. With them, the applier applies every event once, and stops at
// an event that does not match the data.
func applier(v server.Version) []string {
	args := []string{"--server-id=4294967295", "--replicate-same-server-id", "--relay-log=" + relay, "--relay-log-index=" + relay + ".index", "--relay-log-purge=0", "--relay-log-recovery=0"}
	name, workers := "slave", 0
	if v.AtLeast(8, 0, 26) {
		name, workers = "replica", 1
	}
	for _, option := range []string{"skip-errors=OFF", "exec-mode=STRICT", "type-conversions=", "sql-verify-checksum=ON"} {
		args = append(args, "--"+name+"-"+option)
	}
	args = append(args, "--init-"+name+"=")
	if v.Flavour == server.MariaDB {
		return append(args, "--slave-parallel-threads=0", "--slave-run-triggers-for-rbr=NO", "--slave-ddl-exec-mode=STRICT")
	}
	return append(args, fmt.Sprintf("--%s-parallel-workers=%d", name, workers))
}

// unfiltered removes the applier's filters, which would skip events without an error.
func unfiltered(conn *server.Conn) error {
	filters := []string{"replicate_do_db", "replicate_ignore_db", "replicate_do_table", "replicate_ignore_table", "replicate_wild_do_table", "replicate_wild_ignore_table", "replicate_rewrite_db"}
	if conn.Version.Flavour == server.MySQL {
		return conn.Do("CHANGE REPLICATION FILTER " + strings.ToUpper(strings.Join(filters, " = (), ")) + " = ()")
	}
	for _, filter := range filters {
		has, err := conn.Variable(filter)
		if err != nil {
			return err
		}
		if has == "" {
			continue
		}
		if err := conn.Do("SET GLOBAL " + filter + " = ''"); err != nil {
			return err
		}
	}
	return nil
}

// apply makes the server apply the relay logs.
func (s *spool) apply(ctx context.Context, i *Instance) error {
	args := append(applier(i.Version), i.Replay...)
	if s.gtid {
		args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
	}
	if err := i.Start(ctx, args...); err != nil {
		return err
	}
	if err := i.fillMemory(ctx); err != nil {
		return err
	}
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := inZone(conn, s.plan.source.Backup); err != nil {
		return err
	}
	if err := unfiltered(conn); err != nil {
		return err
	}
	if s.statuses == nil {
		if s.statuses, err = readStatuses(conn); err != nil {
			return err
		}
	}
	if err := s.applied(ctx, conn); err != nil {
		return err
	}
	return forget(conn)
}

// forget removes the applier's state and the relay logs from the server.
func forget(conn *server.Conn) error {
	return conn.Do(conn.Version.Words().ForgetReplica)
}

// applied waits until the server has applied the relay logs. It fails unless the server has applied exactly their events.
func (s *spool) applied(ctx context.Context, conn *server.Conn) error {
	w := conn.Version.Words()
	last := s.files[len(s.files)-1]
	for _, statement := range []string{
		fmt.Sprintf("%s %s='none', RELAY_LOG_FILE='%s', RELAY_LOG_POS=%d", w.ChangeSource, w.SourceHost, s.files[s.first], s.from),
		fmt.Sprintf("%s UNTIL RELAY_LOG_FILE='%s', RELAY_LOG_POS=%d", w.StartApplier, last, s.end()),
	} {
		if err := conn.Do(statement); err != nil {
			return contract.Errorf(contract.ReasonLoadFailed, "begin the replay: %w", err)
		}
	}
	for {
		row, err := conn.Named(w.ReplicaStatus)
		if err != nil {
			return err
		}
		at := row["Relay_Log_File"] + ":" + row["Relay_Log_Pos"]
		reached := at == fmt.Sprintf("%s:%d", last, s.end())
		switch running := row["Slave_SQL_Running"] + row["Replica_SQL_Running"]; {
		case row["Last_SQL_Errno"] != "0":
			return contract.Errorf(contract.ReasonLoadFailed, "the replay failed at %s: the server refused an event: %s", at, refused(conn, row))
		case running == "No" && reached:
			return nil
		case reached:
			// The applier checks UNTIL before each event. Here it cannot stop by itself: the log has no event after the end.
			if err := conn.Do(w.StopReplica); err != nil {
				return err
			}
			continue
		case running == "No":
			return contract.Errorf(contract.ReasonLoadFailed, "the replay ended at %s, not at %s:%d", at, last, s.end())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// refused returns the reason why the applier has stopped, without the statements and rows that the server quotes. In MySQL, the workers
// report the reason, not the coordinator.
func refused(conn *server.Conn, status map[string]string) string {
	code, text := status["Last_SQL_Errno"], status["Last_SQL_Error"]
	if conn.Version.Flavour == server.MySQL {
		workers, err := conn.Rows("SELECT LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER <> 0 LIMIT 1")
		if err == nil && len(workers) > 0 {
			code, text = workers[0][0], workers[0][1]
		}
	}
	return server.ExplainReplay(code, text)
}

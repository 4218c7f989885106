// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Member is the running server of a member, and the member's promises.
type Member struct {
	// Root logs in through the socket with all rights.
	Root server.Options
	// Volume stores the promises.
	Volume *volume.Volume
	// Ordinal is this member's number. Members is the maximum number of members.
	Ordinal, Members int
	// Password is the password of the accounts for replication. Each account belongs to one member.
	Password string

	mu sync.Mutex // one order at a time
	// primary is the epoch in which this server is the primary; 0 if it is no primary. Serve can increase it.
	primary      int64
	unfinished   bool // a promotion failed half-way
	stopped      bool
	ended        bool // the server's process has ended
	demands      int
	cutVoters    []int
	cutOthers    []int
	cutEnd       mysqlmember.Position
	cutRevision  int64          // the revision of the order that set cutVoters
	admitted     map[int]string // by member: the UUID of the server whose password the account has; "" for the password that all members share
	progress     Progress
	source       mysqlmember.Source
	acks         bool
	renewed      bool   // the relay log was dropped since the start of the server
	acknowledged uint64 // commits that voters have acknowledged since the start of the server
}

// Arguments returns the options with which the server must start. With these options, the server starts read-only
// and without replication, whatever its role was before.
func Arguments(ordinal int) []string {
	return []string{
		"--server-id=" + strconv.Itoa(ordinal+1), "--super-read-only=ON", "--skip-replica-start=ON", "--event-scheduler=OFF",
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-replica-updates=ON", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1",
		"--sync-relay-log=1", "--relay-log-recovery=OFF", "--relay-log=relay", "--replica-preserve-commit-order=ON", "--skip-name-resolve=ON",
		"--replica-net-timeout=5", // in seconds: a hanging primary sends no heartbeat (SOURCE_HEARTBEAT_PERIOD)
		"--plugin-load-add=semisync_source.so", "--plugin-load-add=semisync_replica.so", "--plugin-load-add=mysql_clone.so",
		"--rpl-semi-sync-source-enabled=OFF", "--rpl-semi-sync-replica-enabled=OFF", "--rpl-semi-sync-source-timeout=4294967295",
		"--rpl-semi-sync-source-wait-point=AFTER_SYNC", "--rpl-semi-sync-source-wait-no-replica=ON", "--rpl-semi-sync-source-wait-for-replica-count=1",
	}
}

// Account returns the name of a member's account for replication. The primary refuses a member by locking its account.
func Account(ordinal int) string { return "d3os_member_" + strconv.Itoa(ordinal) }

// AgentAccount is the name of the account with all rights. Only the agent uses it.
const AgentAccount = "d3os_agent"

// CloneAccount is the name of the account that copies the data of a member. The account may not read the log, so a copying server
// acknowledges nothing.
const CloneAccount = "d3os_clone"

// ArchiveAccount is the name of the account by which the archive reads the logs of members.
const ArchiveAccount = "d3os_archiver"

// isConnected returns false if the receiver is connected to a server with another UUID than the source's: another
// server may have the source's address. It returns true if the receiver does not run, or if the source's UUID is
// unknown.
func isConnected(s mysqlmember.Source, status map[string]string) bool {
	return s.Server == "" || status["Replica_IO_Running"] != "Yes" || status["Source_UUID"] == s.Server
}

// isAt reports whether two sources have the same address.
func isAt(s, other mysqlmember.Source) bool {
	s.Server, other.Server = "", ""
	return s == other
}

// CreateAccounts creates the accounts for replication, for copies and for the archive. Only new data needs this: copies already contain the
// accounts.
func (m *Member) CreateAccounts(ctx context.Context) error {
	return m.session(ctx, func(c *server.Conn) error {
		password := " IDENTIFIED BY " + server.Literal(m.Password)
		statements := []string{"SET SESSION sql_log_bin = 0", "CREATE USER IF NOT EXISTS " + CloneAccount + password, "GRANT BACKUP_ADMIN ON *.* TO " + CloneAccount,
			"CREATE USER IF NOT EXISTS " + ArchiveAccount + password, "GRANT REPLICATION SLAVE ON *.* TO " + ArchiveAccount}
		for i := range m.Members {
			statements = append(statements, "CREATE USER IF NOT EXISTS "+Account(i)+password+" ACCOUNT LOCK", "GRANT REPLICATION SLAVE ON *.* TO "+Account(i))
		}
		return wrap(run(c, statements...), "create the accounts of members")
	})
}

// Promise stops the receiver until a later order, and makes the volume refuse orders of older epochs. The stored revision does not change.
func (m *Member) Promise(ctx context.Context, epoch int64) error {
	n, err := m.Volume.Notes()
	if err != nil {
		return err
	}
	return m.order(ctx, mysqlmember.Order{Epoch: epoch, Revision: max(n.Revision, 1)}, func(c *server.Conn) error {
		if m.primary != 0 {
			return contract.Errorf(contract.ReasonRefused, "this member is the primary of epoch %d: only a start without a ticket ends this role", m.primary)
		}
		m.source, m.acks = mysqlmember.Source{}, false
		return wrap(run(c, "STOP REPLICA IO_THREAD", "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"), "stop the receiver")
	})
}

// Follow makes the server receive from a source, with or without acknowledgements. It never drops a relay log that is not applied.
func (m *Member) Follow(ctx context.Context, o mysqlmember.Order, from mysqlmember.Source, acknowledge bool) error {
	return m.order(ctx, o, func(c *server.Conn) error {
		if m.primary != 0 {
			return contract.Errorf(contract.ReasonRefused, "this member is the primary of epoch %d: it does not follow member %d", m.primary, from.Ordinal)
		}
		row, err := c.Named("SHOW REPLICA STATUS")
		if err != nil {
			return fmt.Errorf("read the replication status: %w", err)
		}
		isSame := isAt(m.source, from) && receives(row) && isConnected(from, row)
		if isSame && m.acks == acknowledge {
			m.source = from
			return nil
		}
		if err := run(c, "STOP REPLICA IO_THREAD"); err != nil {
			return fmt.Errorf("stop the receiver: %w", err)
		}
		m.source, m.acks = mysqlmember.Source{}, false
		enabled := "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"
		if acknowledge {
			enabled = "SET GLOBAL rpl_semi_sync_replica_enabled = ON"
		}
		if isSame { // the receiver reads the setting when it starts; the relay log is kept
			if err := run(c, enabled, "START REPLICA"); err != nil {
				return fmt.Errorf("follow member %d: %w", from.Ordinal, err)
			}
			m.source, m.acks = from, acknowledge
			return nil
		}
		if err := drained(c); err != nil {
			return err
		}
		if err := stopApplier(c); err != nil {
			return err
		}
		return m.receive(c, from, acknowledge, enabled)
	})
}

// receive makes a server receive from a source. The server must run neither a receiver nor an applier. enabled is the statement that
// turns acknowledgements on or off.
func (m *Member) receive(c *server.Conn, from mysqlmember.Source, acknowledge bool, enabled string) error {
	password := m.Password
	if from.Personal {
		own, err := c.Value("SELECT @@GLOBAL.server_uuid")
		if err != nil {
			return fmt.Errorf("read the server's UUID: %w", err)
		}
		password = passwordOf(m.Password, own)
	}
	err := run(c, enabled, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = %s, SOURCE_PORT = %d, SOURCE_USER = %s, SOURCE_PASSWORD = %s, "+
		"SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 4294967295, SOURCE_HEARTBEAT_PERIOD = 1, GET_SOURCE_PUBLIC_KEY = 1",
		server.Literal(from.Host), from.Port, server.Literal(Account(m.Ordinal)), server.Literal(password)), "START REPLICA")
	if err != nil {
		return fmt.Errorf("follow member %d: %w", from.Ordinal, err)
	}
	m.source, m.acks = from, acknowledge
	return nil
}

// Resume starts the applier if an earlier server left a relay log that is not fully applied. A server starts without an
// applier, and Follow and Promote refuse their orders until the relay log is applied.
func (m *Member) Resume(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.primary != 0 || m.unfinished {
		return nil
	}
	err := m.session(ctx, drained)
	if contract.ReasonOf(err) == contract.ReasonBusy { // the function drained has started the applier
		return nil
	}
	return wrap(err, "resume the applier")
}

// mostReserved is the maximum number of connections that are kept free for the agents.
const mostReserved = 20

// Reserve limits the connections of each account, so that clients leave some connections for the agents. A server without a free connection
// would not answer its agent, and the operator would count the server as lost. If the user has set a lower limit, Reserve keeps it.
func (m *Member) Reserve(ctx context.Context) error {
	err := m.session(ctx, func(c *server.Conn) error {
		var all, limit int
		for value, variable := range map[*int]string{&all: "max_connections", &limit: "max_user_connections"} {
			text, err := c.Value("SELECT @@GLOBAL." + variable)
			if err != nil {
				return err
			}
			if *value, err = strconv.Atoi(text); err != nil {
				return err
			}
		}
		most := max(1, all-min(mostReserved, all/4))
		if limit > 0 && limit <= most {
			return nil
		}
		return c.Do(fmt.Sprintf("SET GLOBAL max_user_connections = %d", most))
	})
	return wrap(err, "reserve connections")
}

// Promote makes the server the primary of a ticket's epoch. It stores that the ticket is used before the server ends its replication. The
// new primary refuses all connections of members until Serve admits them. It becomes writable in the last step.
func (m *Member) Promote(ctx context.Context, t Ticket) error {
	return m.order(ctx, t.Order, func(c *server.Conn) error {
		if m.primary != 0 || m.unfinished {
			return contract.Errorf(contract.ReasonRefused, "this server was promoted already: after a start, a server is promoted only once")
		}
		if err := wrap(run(c, "STOP REPLICA IO_THREAD"), "stop the receiver"); err != nil {
			return err
		}
		m.source, m.acks = mysqlmember.Source{}, false
		if err := drained(c); err != nil {
			return err
		}
		if err := m.Volume.Take(t.Order, t.Text); err != nil {
			return err
		}
		if err := stopApplier(c); err != nil {
			return err
		}
		if err := wrap(run(c, "RESET REPLICA ALL", "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"), "end the replication"); err != nil {
			return err
		}
		return m.becomePrimary(c, t.Order.Epoch, t.Demands)
	})
}

// becomePrimary makes a server writable. The server must not replicate. Accounts cannot be locked while super_read_only is on: offline mode
// keeps members and clients out until the accounts are locked. If a step fails, the server must be killed: see State.Unprotected.
func (m *Member) becomePrimary(c *server.Conn, epoch int64, demands int) error {
	var all []int
	for i := range m.Members {
		if i != m.Ordinal {
			all = append(all, i)
		}
	}
	m.unfinished = true
	m.cutVoters, m.cutOthers = nil, all
	if err := m.demand(c, demands); err != nil {
		return err
	}
	if err := wrap(run(c, "SET GLOBAL offline_mode = ON", "SET GLOBAL super_read_only = OFF"), "prepare the primary"); err != nil {
		return err
	}
	m.primary = epoch // after this, only the end of the process makes the server a follower
	if err := m.cut(c, all, nil); err != nil {
		return err
	}
	if err := run(c, "SET GLOBAL read_only = OFF", "SET GLOBAL offline_mode = OFF"); err != nil {
		return fmt.Errorf("make the primary writable: %w", err)
	}
	m.unfinished = false
	return nil
}

// Serve sets the number of acknowledgements that the primary demands, and the members whose connections it refuses. If an order refuses a
// voter, no later order of the same revision admits this voter: an order that arrives later may have been sent earlier. servers maps
// members to the UUIDs of their servers that log in with a separate password. Serve also makes a read-only primary writable, for example
// after a failed demotion.
func (m *Member) Serve(ctx context.Context, o mysqlmember.Order, demands int, cutVoters, cutOthers []int, servers map[int]string) error {
	return m.order(ctx, o, func(c *server.Conn) error {
		if m.primary == 0 || m.unfinished {
			return contract.Errorf(contract.ReasonRefused, "this member is no primary: a ticket must make it the primary first")
		}
		sticky := cutVoters
		if o.Revision == m.cutRevision {
			sticky = append(slices.Clone(cutVoters), m.cutVoters...)
		}
		if demands > 0 { // raise the demand before a replica may connect
			if err := m.demand(c, demands); err != nil {
				return err
			}
		}
		if err := wrap(run(c, "SET GLOBAL super_read_only = OFF"), "prepare the primary"); err != nil { // accounts cannot be locked while super_read_only is on
			return err
		}
		if err := m.cut(c, append(slices.Clone(sticky), cutOthers...), servers); err != nil {
			return err
		}
		if err := wrap(run(c, "SET GLOBAL read_only = OFF"), "make the primary writable"); err != nil {
			return err
		}
		m.cutRevision, m.cutVoters, m.cutOthers, m.primary = o.Revision, unique(sticky), unique(cutOthers), o.Epoch
		if demands == 0 {
			return m.demand(c, 0)
		}
		return nil
	})
}

func unique(all []int) []int {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// demand sets the number of acknowledgements that a commit needs. If the number is not 0, semi-sync is on when demand returns.
func (m *Member) demand(c *server.Conn, demands int) error {
	if demands == 0 {
		m.demands = 0
		return wrap(run(c, "SET GLOBAL rpl_semi_sync_source_enabled = OFF"), "end semi-sync")
	}
	err := run(c, fmt.Sprintf("SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = %d", demands), "SET GLOBAL rpl_semi_sync_source_enabled = ON")
	if err != nil {
		return fmt.Errorf("demand %d acknowledgements: %w", demands, err)
	}
	status, err := status(c, "Rpl_semi_sync_source_status")
	switch {
	case err != nil:
		return fmt.Errorf("demand %d acknowledgements: %w", demands, err)
	case status != "ON":
		return contract.Errorf(contract.ReasonFailed, "demand %d acknowledgements: semi-sync is %q after it was set to ON", demands, status)
	}
	m.demands = demands
	return nil
}

// disconnect ends the connections of locked accounts. A login in progress may have passed the check before the lock. disconnect also ends
// such logins: it ends all unfinished logins whose connection ID is at most the present maximum.
func disconnect(c *server.Conn, users []string) error {
	if len(users) == 0 {
		return nil
	}
	last, err := c.Value("SELECT MAX(PROCESSLIST_ID) FROM performance_schema.threads")
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	names := "'" + strings.Join(users, "', '") + "'"
	for range 200 {
		rows, err := c.Rows("SELECT PROCESSLIST_ID, PROCESSLIST_USER FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL AND (PROCESSLIST_USER IN (" + names + ") " +
			"OR PROCESSLIST_USER = 'unauthenticated user' AND PROCESSLIST_ID <= " + last + ")")
		if err != nil {
			return fmt.Errorf("list connections: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, row := range rows {
			_ = c.Do("KILL CONNECTION " + row[0]) // the connection may have ended
		}
		time.Sleep(10 * time.Millisecond)
	}
	return contract.Errorf(contract.ReasonBusy, "end the connections of %s: some are still open", strings.Join(users, ", "))
}

// Heartbeat writes a row. It waits only briefly for locks, and for the acknowledgement, which may arrive later.
func (m *Member) Heartbeat(ctx context.Context, o mysqlmember.Order) error {
	return m.order(ctx, o, func(c *server.Conn) error {
		if m.primary == 0 {
			return contract.Errorf(contract.ReasonRefused, "this member is no primary: it writes nothing")
		}
		return heartbeat(c, o.Epoch)
	})
}

func heartbeat(c *server.Conn, epoch int64) error {
	if err := c.Limit(time.Now().Add(time.Second)); err != nil {
		return err
	}
	return wrap(run(c, "SET SESSION lock_wait_timeout = 1", makeDatabase, "CREATE TABLE IF NOT EXISTS d3os_member.heartbeat (id INT PRIMARY KEY, epoch BIGINT, written TIMESTAMP(6))",
		fmt.Sprintf("REPLACE INTO d3os_member.heartbeat VALUES (1, %d, NOW(6))", epoch)), "write a heartbeat")
}

// Prove writes a row on a primary. An acknowledgement of the row proves that the voter has not promised another epoch: see Acknowledged.
func (m *Member) Prove(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.primary == 0 || m.unfinished {
		return nil
	}
	return m.session(ctx, func(c *server.Conn) error { return heartbeat(c, m.primary) })
}

// Acknowledged returns the number of commits that voters had acknowledged when the state was last read.
func (m *Member) Acknowledged() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.acknowledged
}

// order executes an order: it stores the order's epoch and revision, and then runs the effect.
func (m *Member) order(ctx context.Context, o mysqlmember.Order, effect func(*server.Conn) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return contract.Errorf(contract.ReasonRefused, "the server is being stopped, and accepts no order")
	}
	if err := m.Volume.Take(o, ""); err != nil {
		return err
	}
	return m.session(ctx, effect)
}

// session calls do with a deadline, so that a hanging server does not block the agent.
func (m *Member) session(ctx context.Context, do func(*server.Conn) error) error {
	c, err := server.Connect(ctx, m.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Limit(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	return do(c)
}

// run runs statements until one fails.
func run(c *server.Conn, statements ...string) error {
	for _, statement := range statements {
		if err := c.Do(statement); err != nil {
			return err
		}
	}
	return nil
}

// receives reports whether the receiver runs, connected or not. Some errors end the receiver.
func receives(status map[string]string) bool {
	return status != nil && status["Replica_IO_Running"] != "No"
}

// drained returns a Busy error if the relay log has transactions that are not applied. In that case, it starts the applier.
func drained(c *server.Conn) error {
	row, err := c.Named("SHOW REPLICA STATUS")
	if err != nil || row == nil {
		return err
	}
	applied, err := c.Value("SELECT GTID_SUBSET(" + server.Literal(row["Retrieved_Gtid_Set"]) + ", @@GLOBAL.gtid_executed)")
	if err != nil || applied == "1" {
		return err
	}
	if err := run(c, "START REPLICA SQL_THREAD"); err != nil {
		return fmt.Errorf("apply the relay log: %w", err)
	}
	return contract.Errorf(contract.ReasonBusy, "the relay log has transactions that are not applied: received %s", row["Retrieved_Gtid_Set"])
}

// stopApplier stops the replication of a server whose relay log is applied, except for a part of a transaction. The part was never
// acknowledged, and a new receiver gets the whole transaction.
func stopApplier(c *server.Conn) error {
	if err := endApplier(c); err != nil {
		return err
	}
	return wrap(run(c, "STOP REPLICA"), "stop the applier")
}

// endApplier kills the applier, and waits for its end. If the receiver has stopped within a transaction, STOP REPLICA and SIGTERM would wait
// a minute for the rest of that transaction, also if the applier is killed at the same time. endApplier also kills an applier that is in no
// transaction, because the applier may be about to begin one.
func endApplier(c *server.Conn) error {
	for range 500 {
		rows, err := c.Rows("SELECT t.PROCESSLIST_ID FROM performance_schema.replication_applier_status_by_coordinator a JOIN performance_schema.threads t USING (THREAD_ID)")
		if err != nil {
			return fmt.Errorf("read the applier's status: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, row := range rows {
			_ = c.Do("KILL " + row[0]) // the thread may have ended
		}
		time.Sleep(10 * time.Millisecond)
	}
	return contract.Errorf(contract.ReasonBusy, "end the applier: it still runs")
}

// wrap adds the failed action to an error; nil stays nil.
func wrap(err error, did string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", did, err)
}

func status(c *server.Conn, name string) (string, error) {
	rows, err := c.Rows("SHOW GLOBAL STATUS LIKE " + server.Literal(name))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][1], nil
}

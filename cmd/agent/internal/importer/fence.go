// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Fence opens and closes the fence of a server: a fenced server acknowledges no write of any account.
type Fence struct {
	Server server.Options
	// Wait is the time for which a close may wait for writing statements. Other statements wait for the close during that time.
	Wait time.Duration
	// KeepReadOnly makes Open leave read_only on.
	KeepReadOnly bool
}

// setFence is the beginning of the statements that set or remove the fence.
const setFence = "SET GLOBAL super_read_only"

// Look returns the state of the server. It fails for a server that cannot be fenced.
func (f Fence) Look(ctx context.Context) (contract.Fence, error) {
	conn, err := f.connect(ctx)
	if err != nil {
		return contract.Fence{}, err
	}
	defer conn.Close()
	return f.look(conn)
}

// Close fences the server: after Close, the server acknowledges no write until it restarts or Open is called. A second
// call is harmless. super_read_only refuses COMMIT, but neither XA PREPARE nor XA COMMIT. So Close also waits for the
// end of XA transactions that have written.
func (f Fence) Close(ctx context.Context) (contract.Fence, error) {
	conn, err := f.connect(ctx)
	if err != nil {
		return contract.Fence{}, err
	}
	defer conn.Close()
	before, err := f.look(conn)
	if err != nil {
		return before, err
	}
	if n := conn.Prepared(); n > 0 {
		return contract.Fence{}, contract.Errorf(contract.ReasonBusy, "%s", isPrepared("server "+f.Server.Address, n))
	}
	if !before.SuperReadOnly {
		if err := f.set(conn); err != nil {
			return contract.Fence{}, err
		}
	}
	if open, err := f.drain(ctx, conn); err != nil || open != "" {
		if !before.SuperReadOnly {
			err = errors.Join(err, setReadOnly(conn, before.ReadOnly))
		}
		if err == nil {
			err = contract.Errorf(contract.ReasonBusy, "stop the writes of server %s: transactions that have changed rows, and may be XA transactions, have not ended within %s: %s: commit or roll back these transactions on that server "+
				"(XA RECOVER lists the prepared transactions). Nothing was changed", f.Server.Address, f.Wait, open)
		}
		return contract.Fence{}, err
	}
	seen, err := f.look(conn)
	if err == nil && !seen.SuperReadOnly {
		err = contract.Errorf(contract.ReasonFailed, "stop the writes of server %s: another session has set super_read_only to OFF again", f.Server.Address)
	}
	return seen, err
}

// set sets super_read_only.
func (f Fence) set(conn *server.Conn) error {
	if err := conn.Do(fmt.Sprintf("SET SESSION lock_wait_timeout = %d", max(1, int(math.Ceil(f.Wait.Seconds()))))); err != nil {
		return err
	}
	err := conn.Do(setFence + " = ON")
	if server.Code(err) == mysql.ER_LOCK_WAIT_TIMEOUT {
		return contract.Errorf(contract.ReasonLockWait, "stop the writes of server %s: a statement or a lock has prevented that for longer than %s (SHOW PROCESSLIST names it): nothing was changed: %w", f.Server.Address, f.Wait, err)
	}
	return err
}

// drain waits for the end of transactions that wrote before the fence and may be XA transactions. It returns those that have not ended in
// time.
func (f Fence) drain(ctx context.Context, conn *server.Conn) (string, error) {
	var first map[string]bool
	for limit := time.Now().Add(f.Wait); ; {
		open, err := conn.WritingXA()
		if err != nil {
			return "", err
		}
		if first == nil {
			first = open
		}
		var left []string
		for id := range open {
			if first[id] {
				left = append(left, id)
			}
		}
		if len(left) == 0 || time.Now().After(limit) {
			slices.Sort(left)
			return strings.Join(left[:min(len(left), 8)], ", "), nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return "", ctx.Err()
		}
	}
}

// setReadOnly turns super_read_only off. If stays is true, read_only stays on: accounts without the right to bypass it may only read.
func setReadOnly(conn *server.Conn, stays bool) error {
	if err := conn.Do(setFence + " = OFF"); err != nil || stays {
		return err
	}
	return conn.Do("SET GLOBAL read_only = OFF")
}

// Open removes the fence. A second call is harmless.
func (f Fence) Open(ctx context.Context) (contract.Fence, error) {
	conn, err := f.connect(ctx)
	if err != nil {
		return contract.Fence{}, err
	}
	defer conn.Close()
	// A close by a killed agent may still wait for a lock. It would set the fence after Open.
	waits, err := conn.Value("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE " + server.Literal(setFence+"%"))
	if err != nil {
		return contract.Fence{}, err
	}
	if waits != "0" {
		return contract.Fence{}, contract.Errorf(contract.ReasonBusy, "allow the writes of server %s: an earlier request to stop them has not ended: try again", f.Server.Address)
	}
	if err := setReadOnly(conn, f.KeepReadOnly); err != nil {
		return contract.Fence{}, err
	}
	return f.look(conn)
}

// connect connects to a server, and fails if the server cannot be fenced.
func (f Fence) connect(ctx context.Context) (*server.Conn, error) {
	conn, err := server.Connect(ctx, f.Server)
	if err != nil {
		return nil, err
	}
	if !conn.Version.AtLeast(5, 7, 8) {
		conn.Close()
		return nil, contract.Errorf(contract.ReasonRefused, "server %s is %s %s, which has no setting that stops the writes of all accounts, including root (super_read_only of MySQL 5.7.8 and newer): "+
			"copy its data by hand", f.Server.Address, conn.Version.Flavour, conn.Version.Text)
	}
	return conn, conn.Limit(time.Now().Add(silence + f.Wait))
}

func (f Fence) look(conn *server.Conn) (seen contract.Fence, err error) {
	seen.Server = conn.Version.Text
	status := "SHOW REPLICA STATUS"
	if !conn.Version.AtLeast(8, 0, 22) {
		status = "SHOW SLAVE STATUS"
	}
	rows, err := conn.Rows(status)
	if err != nil {
		return seen, err
	}
	if len(rows) > 0 {
		return seen, contract.Errorf(contract.ReasonRefused, "server %s is a replica, and its source writes to it in any case: copy that source instead", f.Server.Address)
	}
	for name, value := range map[string]*bool{"read_only": &seen.ReadOnly, "super_read_only": &seen.SuperReadOnly} {
		text, err := conn.Variable(name)
		if err != nil {
			return seen, err
		}
		*value = text == "ON"
	}
	seen.HasLog, err = hasLog(conn)
	return seen, err
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// at is called between the steps of creating data. Tests end a process there.
var at = func(string) {}

// private are the options of a server that only this agent can reach.
var private = []string{"--skip-networking"}

// seed creates the first data of the database: the data of the backup that was restored to the volume, or else an empty database.
func (a *Agent) seed(ctx context.Context, t mysql.Ticket) error {
	folder, isRestored, err := a.Volume.Restored()
	switch {
	case err != nil:
		return err
	case isRestored:
		return a.begin(ctx, t, folder)
	case a.Restores:
		return contract.Errorf(contract.ReasonRefused, "make the first data: the database must begin with a backup, but the volume has no restored data: delete the pod to have the backup restored again")
	}
	if err := a.Volume.Prepare(); err != nil {
		return err
	}
	fresh := a.Volume.New()
	if err := a.Server.initialize(ctx, fresh, a.lock); err != nil {
		return err
	}
	at("initialized")
	err = a.with(ctx, fresh, "root", "", func(c *server.Conn, socket string) error {
		m := &mysql.Member{Root: server.Options{Address: socket, User: "root"}, Members: a.Members, Password: a.secrets.replication}
		if err := m.CreateAccounts(ctx); err != nil {
			return err
		}
		own := mysql.AgentAccount + "@localhost"
		for _, statement := range []string{
			"SET SESSION sql_log_bin = 0", "CREATE USER " + own + " IDENTIFIED BY " + server.Literal(a.secrets.agent), "GRANT ALL ON *.* TO " + own + " WITH GRANT OPTION",
			"ALTER USER root@localhost IDENTIFIED BY " + server.Literal(a.secrets.root),
		} {
			if err := c.Do(statement); err != nil {
				return fmt.Errorf("create the first accounts: %w", err)
			}
		}
		return nil
	}, "--super-read-only=OFF")
	if err != nil {
		return err
	}
	at("accounts created")
	n, err := a.Volume.Notes()
	if err != nil {
		return err
	}
	return a.replace(t, n.Revision)
}

// replace replaces the member's data with the data in the new folder.
func (a *Agent) replace(t mysql.Ticket, revision int64) error {
	id, err := volume.ServerOf(a.Volume.New())
	if err != nil {
		return err
	}
	return a.Volume.Replace(id, t.Text, revision)
}

// with starts a server on a folder, calls do, and stops the server cleanly.
func (a *Agent) with(ctx context.Context, folder, user, password string, do func(c *server.Conn, socket string) error, more ...string) error {
	p, err := a.Server.start(ctx, a.Ordinal, folder, "new", a.lock, a.Log, append(more, private...)...)
	if err != nil {
		return err
	}
	defer p.kill()
	c, err := p.connect(ctx, user, password)
	if err != nil {
		return err
	}
	at("helper answers")
	result := make(chan error, 1)
	go func() {
		defer c.Close()
		result <- do(c, p.socket)
	}()
	select {
	case err = <-result:
	case <-ctx.Done():
		p.kill()
		err = errors.Join(ctx.Err(), <-result)
	}
	if err != nil {
		return err
	}
	return p.stop(ctx)
}

// join copies the data of the primary, and starts a server on the copy to check it. The copy becomes the member's data only if it has all
// transactions that the primary had when the copy began.
func (a *Agent) join(ctx context.Context, t mysql.Ticket) error {
	if err := errors.Join(a.Volume.Prepare(), a.Volume.DropRestored()); err != nil {
		return err
	}
	before, err := a.donor(ctx, t)
	if err != nil {
		return err
	}
	if err := a.Server.initialize(ctx, a.Volume.Scratch(), a.lock); err != nil {
		return err
	}
	at("initialized")
	if err := a.clone(ctx, t); err != nil {
		return err
	}
	at("cloned")
	// If the primary was replaced during the copy, the former primary may have transactions that no other member has.
	if _, err := a.donor(ctx, t); err != nil {
		return err
	}
	if err := a.checkCopy(ctx, before); err != nil {
		return err
	}
	at("checked")
	if err := a.replace(t, t.Order.Revision); err != nil {
		return err
	}
	at("replaced")
	if err := os.RemoveAll(a.Volume.Scratch()); err != nil {
		return fmt.Errorf("remove the data of the server that made the copy: %w", err)
	}
	return nil
}

// donor verifies that the member in a ticket is a primary, and that its data belongs to the server in the ticket. It returns the
// transactions of that data.
func (a *Agent) donor(ctx context.Context, t mysql.Ticket) (executed string, err error) {
	c, err := server.Connect(ctx, server.Options{Address: a.address(t.Source), User: mysql.CloneAccount, Password: a.secrets.replication})
	if err != nil {
		return "", fmt.Errorf("copy the data of member %d: %w", t.Source, err)
	}
	defer c.Close()
	rows, err := c.Rows("SELECT @@GLOBAL.server_uuid, @@GLOBAL.super_read_only, @@GLOBAL.gtid_executed")
	if err != nil {
		return "", fmt.Errorf("copy the data of member %d: %w", t.Source, err)
	}
	if id, readOnly := rows[0][0], rows[0][1]; id != t.Server || readOnly != "0" {
		return "", contract.Errorf(contract.ReasonRefused, "copy the data of member %d: it has the data of server %s (read-only: %s), but the ticket is for a primary with the data of server %s",
			t.Source, id, readOnly, t.Server)
	}
	return rows[0][2], nil
}

// clone copies the data of a member to the new folder. A helper server, which runs on other data, makes the copy. clone waits while a
// commit waits on the primary.
func (a *Agent) clone(ctx context.Context, t mysql.Ticket) error {
	err := a.with(ctx, a.Volume.Scratch(), "root", "", func(c *server.Conn, _ string) error {
		if err := c.Do("SET GLOBAL clone_valid_donor_list = " + server.Literal(a.address(t.Source))); err != nil {
			return err
		}
		return c.Do(fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY %s DATA DIRECTORY = %s REQUIRE SSL", mysql.CloneAccount, server.Literal(a.Host(t.Source)), a.Server.Port,
			server.Literal(a.secrets.replication), server.Literal(a.Volume.New())))
	})
	if err != nil {
		return fmt.Errorf("copy the data of member %d: %w", t.Source, err)
	}
	return nil
}

// checkCopy starts a server on the copy: MySQL refuses to start on an incomplete copy. The copy must have the transactions had.
func (a *Agent) checkCopy(ctx context.Context, had string) error {
	return a.with(ctx, a.Volume.New(), mysql.AgentAccount, a.secrets.agent, func(c *server.Conn, _ string) error {
		state, err := c.Value("SELECT STATE FROM performance_schema.clone_status")
		if err != nil {
			return fmt.Errorf("check the copy: %w", err)
		}
		has, err := c.Value("SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)", had)
		if err != nil {
			return fmt.Errorf("check the copy: %w", err)
		}
		if state != "Completed" || has != "1" {
			return contract.Errorf(contract.ReasonDamaged, "check the copy: its state is %q, not \"Completed\", or it lacks some of the transactions %s (GTID_SUBSET is %s)", state, had, has)
		}
		return c.Do("RESET REPLICA ALL") // the copy has no relay log
	})
}

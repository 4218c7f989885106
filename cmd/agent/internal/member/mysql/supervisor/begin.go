// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// begin creates the first data from a backup that was restored to a folder. The server gets a new UUID, so that its GTIDs differ from those
// of the backup's server. The operator's accounts get the passwords of this database.
func (a *Agent) begin(ctx context.Context, t mysql.Ticket, folder string) error {
	if err := a.takeAccounts(ctx, folder, func(*server.Conn) error { return nil }); err != nil {
		return err
	}
	at("accounts taken over")
	id, err := volume.ServerOf(folder)
	if err != nil {
		return err
	}
	n, err := a.Volume.Notes()
	if err != nil {
		return err
	}
	return a.Volume.Begin(id, t.Text, n.Revision)
}

// takeAccounts runs a server on data with unknown passwords. It creates the accounts of members, and sets the passwords of the operator's
// accounts. It calls check before it changes anything.
func (a *Agent) takeAccounts(ctx context.Context, folder string, check func(*server.Conn) error) error {
	file := filepath.Join(a.Server.Run, "init.sql")
	password, err := server.InitFile(file)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	options := append([]string{"--super-read-only=OFF", "--init-file=" + file}, relaxPasswords...)
	return a.with(ctx, folder, server.TemporaryAccount, password, func(c *server.Conn, socket string) error {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove the server's init file: %w", err)
		}
		if err := check(c); err != nil {
			return err
		}
		m := &mysql.Member{Root: server.Options{Address: socket, User: server.TemporaryAccount, Password: password}, Members: a.Members, Password: a.secrets.replication}
		if err := m.CreateAccounts(ctx); err != nil {
			return err
		}
		for _, statement := range a.takeOver() {
			if err := c.Do(statement); err != nil {
				return fmt.Errorf("give the accounts of the data their passwords: %w", err)
			}
		}
		return nil
	}, options...)
}

// takeOver returns statements for the data of a backup or of a single server. They set the passwords of this
// database's accounts and remove the replication settings. They also drop the table of event statuses, because the
// events themselves have newer statuses.
func (a *Agent) takeOver() []string {
	own := mysql.AgentAccount + "@localhost"
	replication := " IDENTIFIED BY " + server.Literal(a.secrets.replication)
	statements := []string{
		"SET SESSION sql_log_bin = 0", "RESET REPLICA ALL", "DROP TABLE IF EXISTS " + mysql.EventsTable,
		"CREATE USER IF NOT EXISTS " + own, "ALTER USER " + own + " IDENTIFIED BY " + server.Literal(a.secrets.agent) + " ACCOUNT UNLOCK", "GRANT ALL ON *.* TO " + own + " WITH GRANT OPTION",
		"CREATE USER IF NOT EXISTS root@localhost", "ALTER USER root@localhost IDENTIFIED BY " + server.Literal(a.secrets.root),
		"ALTER USER " + mysql.CloneAccount + replication, "ALTER USER " + mysql.ArchiveAccount + replication,
	}
	for i := range a.Members {
		statements = append(statements, "ALTER USER "+mysql.Account(i)+replication+" ACCOUNT LOCK")
	}
	return slices.Concat(statements, []string{"DROP USER " + server.TemporaryAccount + "@localhost"})
}

// relaxPasswords are options that make a password validation component accept generated passwords.
var relaxPasswords = []string{
	"--loose-validate_password.policy=LOW", "--loose-validate_password.length=0", "--loose-validate_password.number_count=0", "--loose-validate_password.special_char_count=0",
	"--loose-validate_password.mixed_case_count=0", "--loose-validate_password.check_user_name=OFF",
}

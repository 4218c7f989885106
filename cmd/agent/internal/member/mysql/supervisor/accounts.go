// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

var (
	databaseName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	userName     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)
)

// declared holds the databases and accounts in the files. user is empty if clients have no account.
type declared struct {
	root, user, password string
	replication          string // password of the accounts of members and of the archive
	databases            []string
	users                []account // further accounts
}

// keepAccounts creates the databases and the account of the clients on a primary, and changes passwords, whenever the files have changed.
// It drops nothing, and writes nothing if everything exists. Its statements are transactions like those of clients. Therefore it pauses
// while commits are blocked.
func (a *Agent) keepAccounts(ctx context.Context, r *running) {
	applied := ""
	for ctx.Err() == nil {
		state, _ := r.latest()
		if state.Role == mysqlmember.RolePrimary && state.Writable && state.Commits != mysqlmember.CommitsWait {
			wanted, err := a.declared()
			if text := fmt.Sprintf("%q", wanted); err == nil && text != applied {
				if err = a.apply(ctx, r, wanted); err == nil {
					applied = text
				}
			}
			a.sayAccounts(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
}

// sayAccounts stores a problem with accounts for the report, and logs a new problem.
func (a *Agent) sayAccounts(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if problem != "" && problem != a.accountsProblem {
		_, _ = fmt.Fprintln(a.Log, "accounts:", problem)
	}
	a.accountsProblem = problem
}

// declared reads the declared databases and accounts from their files.
func (a *Agent) declared() (d declared, err error) {
	d.replication = a.secrets.replication
	if d.root, err = a.secret("root-password"); err != nil {
		return d, err
	}
	if d.databases, err = a.databases(); err != nil {
		return d, err
	}
	if d.users, err = a.users(); err != nil {
		return d, err
	}
	d.user, err = a.secret("username")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return d, nil
	case err != nil:
		return d, err
	case !isFree(d.user):
		return d, contract.Errorf(contract.ReasonRefused, "the username %.40q is refused: it must have up to 32 letters, digits, '_', '.' and '-', and must not be an account of MySQL or of the operator", d.user)
	}
	d.password, err = a.secret("password")
	return d, err
}

// isFree reports whether neither MySQL nor the operator uses this account name.
func isFree(user string) bool {
	return userName.MatchString(user) && user != "root" && !strings.HasPrefix(user, "mysql.") && !strings.HasPrefix(user, "d3os_")
}

// databases returns the names in the file of databases, sorted.
func (a *Agent) databases() ([]string, error) {
	if a.Databases == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.Databases)
	if err != nil {
		return nil, fmt.Errorf("read the list of databases: %w", err)
	}
	names := strings.Fields(string(text))
	slices.Sort(names)
	return names, areNames(names)
}

// areNames refuses invalid database names.
func areNames(names []string) error {
	for _, name := range names {
		if !databaseName.MatchString(name) {
			return contract.Errorf(contract.ReasonRefused, "read the list of databases: %.80q is no name", name)
		}
	}
	return nil
}

// secret reads a file of the folder of secrets.
func (a *Agent) secret(name string) (string, error) { return secretIn(a.Secrets, name) }

// applying limits the duration of a statement. apply also uses it to limit the check whether the statement waits.
const applying = 2 * time.Second

// apply executes the missing statements. A statement that changes accounts and waits for an acknowledgement blocks all logins, including
// those of replicas. Therefore a voter must be connected first. If a statement waits nevertheless, apply kills the server.
func (a *Agent) apply(ctx context.Context, r *running, wanted declared) error {
	c, err := server.Connect(ctx, r.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	spare, err := server.Connect(ctx, r.Root) // no login succeeds while a statement waits
	if err != nil {
		return err
	}
	defer spare.Close()
	if err := c.Limit(time.Now().Add(5 * applying)); err != nil {
		return err
	}
	missing, err := wanted.missing(ctx, c, r.Root.Address)
	for _, statement := range missing {
		if err = errors.Join(err, c.Limit(time.Now().Add(applying)), acknowledges(c)); err != nil {
			break
		}
		if err = c.Do(statement); err == nil {
			continue
		}
		if err = fmt.Errorf("create the declared databases and accounts: %w", err); contract.ReasonOf(err) == contract.ReasonServerUnreachable && waits(ctx, spare) {
			a.killServer(r, "a change of accounts waits for an acknowledgement, and blocks all logins")
		}
		break
	}
	if err == nil && len(missing) > 0 {
		_, _ = fmt.Fprintln(a.Log, "all declared databases and accounts exist")
	}
	return err
}

// acknowledges returns an error if commits would wait because no voter is connected.
func acknowledges(c *server.Conn) error {
	enabled, err := c.Value("SELECT @@GLOBAL.rpl_semi_sync_source_enabled")
	if err != nil || enabled == "0" {
		return err
	}
	voters, err := c.Rows("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_clients'")
	if err == nil && (len(voters) == 0 || voters[0][1] == "0") {
		err = contract.Errorf(contract.ReasonBusy, "the agent creates no database and changes no account until a voter is connected")
	}
	return err
}

// waits reports whether commits wait, or the server does not answer. It uses an existing session, because no login succeeds while a
// statement waits.
func waits(ctx context.Context, c *server.Conn) bool {
	if err := c.Limit(time.Now().Add(2 * applying)); err != nil {
		return true
	}
	progress := mysql.Progress{}
	for range 2 {
		if commits, err := progress.Look(c); err != nil || commits != mysqlmember.CommitsBusy {
			return err != nil || commits == mysqlmember.CommitsWait
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(applying / 2):
		}
	}
	return false
}

// missing returns the statements that change the server to the declared state; none if the server already has this state.
func (d declared) missing(ctx context.Context, c *server.Conn, socket string) (statements []string, err error) {
	logsIn := func(user, password string) (bool, error) {
		login, err := server.Connect(ctx, server.Options{Address: socket, User: user, Password: password})
		if err != nil {
			if contract.ReasonOf(err) == contract.ReasonAccessDenied {
				return false, nil
			}
			return false, err
		}
		login.Close()
		return true, nil
	}
	add := func(is bool, statement string) {
		if !is {
			statements = append(statements, statement)
		}
	}
	is, err := logsIn("root", d.root)
	if err != nil {
		return nil, err
	}
	add(is, "ALTER USER root@localhost IDENTIFIED BY "+server.Literal(d.root))
	if statements, err = d.archiver(c, statements); err != nil {
		return nil, err
	}
	if d.user != "" {
		if statements, err = (account{d.user, d.password, nil}).create(c, logsIn, statements); err != nil {
			return nil, err
		}
	}
	for _, name := range d.databases {
		if is, err = has(c, "SELECT COUNT(*) FROM information_schema.schemata WHERE LOWER(schema_name) = LOWER(?)", name); err != nil {
			return nil, err
		}
		add(is, "CREATE DATABASE IF NOT EXISTS `"+name+"`")
		if d.user == "" {
			continue
		}
		if statements, err = (account{name: d.user}).grant(c, name, statements); err != nil {
			return nil, err
		}
	}
	for _, user := range d.users {
		if statements, err = user.create(c, logsIn, statements); err != nil {
			return nil, err
		}
		for _, name := range user.databases {
			if statements, err = user.grant(c, name, statements); err != nil {
				return nil, err
			}
		}
	}
	return statements, nil
}

// archiver adds the statements that create the archive's account. Data of an older agent lacks that account.
func (d declared) archiver(c *server.Conn, statements []string) ([]string, error) {
	for _, part := range []struct{ where, statement string }{
		{"", "CREATE USER IF NOT EXISTS " + mysql.ArchiveAccount + " IDENTIFIED BY " + server.Literal(d.replication)},
		{" AND repl_slave_priv = 'Y'", "GRANT REPLICATION SLAVE ON *.* TO " + mysql.ArchiveAccount},
	} {
		is, err := has(c, "SELECT COUNT(*) FROM mysql.user WHERE user = ? AND host = '%'"+part.where, mysql.ArchiveAccount)
		if err != nil {
			return nil, err
		}
		if !is {
			statements = append(statements, part.statement)
		}
	}
	return statements, nil
}

// has reports whether a query returns a number above 0.
func has(c *server.Conn, query string, args ...any) (bool, error) {
	count, err := c.Value(query, args...)
	if err != nil {
		return false, fmt.Errorf("read the databases and accounts: %w", err)
	}
	return count != "0", nil
}

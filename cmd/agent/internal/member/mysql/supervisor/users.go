// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// account is an account with which clients log in from any address. It has all rights on some databases.
type account struct {
	name, password string
	databases      []string
}

// users reads the file of further accounts, and their passwords.
func (a *Agent) users() (all []account, err error) {
	if a.Users == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.Users)
	if err != nil {
		return nil, fmt.Errorf("read the list of accounts: %w", err)
	}
	main, _ := a.secret("username") // Agent.declared reports this error
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		user := account{name: words[0], databases: words[1:]}
		if !isFree(user.name) || user.name == main {
			return nil, contract.Errorf(contract.ReasonRefused, "the account %.40q is refused: it must have up to 32 letters, digits, '_', '.' and '-', and must not be an account of MySQL, of the operator, or of the Secret with the username", user.name)
		}
		if err := areNames(user.databases); err != nil {
			return nil, err
		}
		if user.password, err = secretIn(a.Passwords, user.name); err != nil {
			return nil, err
		}
		all = append(all, user)
	}
	return all, nil
}

// secretIn reads a file with a password.
func secretIn(folder, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	value := ""
	if err == nil {
		value, err = contract.CleanSecret(text)
	}
	if err != nil {
		return "", fmt.Errorf("read the secret %s: %w", name, err)
	}
	return value, nil
}

// create appends the statement that creates an account or changes its password. It appends nothing if the server accepts the password
// already.
func (u account) create(c *server.Conn, logsIn func(user, password string) (bool, error), statements []string) ([]string, error) {
	is, err := logsIn(u.name, u.password)
	if is || err != nil {
		return statements, err
	}
	exists, err := has(c, "SELECT COUNT(*) FROM mysql.user WHERE user = ? AND host = '%'", u.name)
	if err != nil {
		return nil, err
	}
	verb := map[bool]string{false: "CREATE USER ", true: "ALTER USER "}[exists]
	return append(statements, verb+u.literal()+" IDENTIFIED BY "+server.Literal(u.password)), nil
}

// grant appends the statement that grants an account all rights on a database. It appends nothing if the account has them.
func (u account) grant(c *server.Conn, database string, statements []string) ([]string, error) {
	pattern := strings.ReplaceAll(database, "_", `\_`) // in the database name of a GRANT, an unescaped underscore matches any character
	is, err := has(c, "SELECT COUNT(*) FROM mysql.db WHERE LOWER(db) = LOWER(?) AND user = ? AND host = '%' AND create_priv = 'Y'", pattern, u.name)
	if is || err != nil {
		return statements, err
	}
	return append(statements, "GRANT ALL ON `"+pattern+"`.* TO "+u.literal()), nil
}

func (u account) literal() string { return server.Literal(u.name) + "@'%'" }

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is a client of a database server: MySQL since 5.7, or MariaDB. It uses the statements that the server supports.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/internal/contract"
)

// Flavours of a server.
const (
	MySQL   = "mysql"
	MariaDB = "mariadb"
)

// Options holds the address and the credentials of a server.
type Options struct {
	// Address is host:port, or the path of a socket.
	Address string
	User    string
	// Password never appears in an argument, a log or a message.
	Password string
	// CA is a file with PEM certificates of the CAs that may sign the server's certificate for the host of Address. If CA is empty, the
	// connection uses TLS if the server offers TLS, and accepts any certificate.
	CA string
}

// IsSocket reports whether the address is a path.
func (o Options) IsSocket() bool { return strings.Contains(o.Address, "/") }

// Version is the version of a server.
type Version struct {
	Text                string // such as 5.7.44 or 10.11.19-MariaDB
	Flavour             string
	Major, Minor, Patch int
}

// AtLeast reports whether a server is MySQL of at least this version. It returns false for MariaDB.
func (v Version) AtLeast(major, minor, patch int) bool {
	if v.Flavour != MySQL {
		return false
	}
	have, want := [3]int{v.Major, v.Minor, v.Patch}, [3]int{major, minor, patch}
	for i := range have {
		if have[i] != want[i] {
			return have[i] > want[i]
		}
	}
	return true
}

var versionPattern = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)(-MariaDB)?`)

// ParseVersion parses the version text of a server or a program.
func ParseVersion(text string) (Version, bool) {
	v := Version{Flavour: MySQL}
	if strings.Contains(text, "MariaDB") {
		v.Flavour = MariaDB
	}
	// MariaDB reports 5.5.5-10.11.19-MariaDB to old clients. Its programs print "Ver 10.19 Distrib 10.11.19-MariaDB".
	text = strings.TrimPrefix(text, "5.5.5-")
	found := versionPattern.FindStringSubmatch(text)
	if found == nil {
		return v, false
	}
	v.Text = found[0]
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*n, _ = strconv.Atoi(found[i+1]) // cannot fail: the pattern matches digits
	}
	return v, true
}

// Conn is a connection to a server. Only one goroutine at a time may use it.
type Conn struct {
	conn    *client.Conn
	options Options
	secure  *tls.Config // nil for a connection without TLS
	only    map[string]bool
	Version Version
}

// TLS returns the configuration for further connections to the same server; nil for connections without TLS.
func (c *Conn) TLS() *tls.Config { return c.secure }

// Connect logs in. It fails with AccessDenied or ServerUnreachable.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	secure, err := o.verified()
	if err != nil {
		return nil, err
	}
	conn, secure, err := o.logIn(ctx, secure)
	if err != nil {
		return nil, failed(o, "log in to", err)
	}
	c := &Conn{conn: conn, options: o, secure: secure}
	if err = conn.SetDeadline(time.Time{}); err != nil {
		return nil, failed(o, "log in to", errors.Join(err, conn.Close()))
	}
	text, err := c.Value("SELECT VERSION()")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var ok bool
	if c.Version, ok = ParseVersion(text); !ok {
		return nil, errors.Join(contract.Errorf(contract.ReasonFailed, "server %s has the unknown version %q", o.Address, text), conn.Close())
	}
	// Set the SQL mode, which defines the meaning of quotes and backslashes, and the character set, which limits the possible names. Set
	// autocommit: without it, the end of a session reverts the session's changes.
	if err := errors.Join(c.Do("SET NAMES utf8mb4"), c.Do("SET SESSION sql_mode = '', autocommit = 1"), c.unlimited()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Ping logs in and ends the session. Without a user, a refused login also proves that the server runs. In both cases, the handshake is
// complete: after max_connect_errors incomplete handshakes, a server blocks the client's address.
func Ping(ctx context.Context, o Options) error {
	conn, _, err := o.logIn(ctx, nil)
	if err == nil {
		return conn.Quit()
	}
	if code := Code(err); o.User == "" && (code == mysql.ER_ACCESS_DENIED_ERROR || code == accessDeniedNoPassword) {
		return nil
	}
	return failed(o, "log in to", err)
}

// unlimited removes the limits of time and rows from the session, regardless of the server's defaults.
func (c *Conn) unlimited() error {
	if err := c.Do("SET SESSION sql_select_limit = 18446744073709551615"); err != nil {
		return err
	}
	switch {
	case c.Version.Flavour == MariaDB:
		return c.Do("SET SESSION max_statement_time = 0")
	case c.Version.AtLeast(5, 7, 8):
		return c.Do("SET SESSION max_execution_time = 0")
	}
	return nil
}

// Close ends the connection and its session.
func (c *Conn) Close() { _ = c.conn.Close() }

// Limit sets a deadline for all statements until the next call of Limit. The zero time removes the deadline.
func (c *Conn) Limit(until time.Time) error { return c.conn.SetDeadline(until) }

// Rows runs a statement and returns the rows, with "" for NULL. args replace question marks.
func (c *Conn) Rows(statement string, args ...any) ([][]string, error) {
	r, err := c.conn.Execute(statement, args...)
	if err != nil {
		return nil, failed(c.options, "query", about(statement, err))
	}
	defer r.Close()
	if r.Resultset == nil {
		return nil, nil
	}
	rows := make([][]string, r.RowNumber())
	for i := range rows {
		rows[i] = make([]string, r.ColumnNumber())
		for j := range rows[i] {
			value, err := r.GetString(i, j)
			if err != nil {
				return nil, failed(c.options, "query", about(statement, err))
			}
			rows[i][j] = strings.Clone(value) // Close reuses the memory of the result
		}
	}
	return rows, nil
}

// Named runs a statement and returns the first row by column names; nil if there is no row.
func (c *Conn) Named(statement string) (map[string]string, error) {
	r, err := c.conn.Execute(statement)
	if err != nil {
		return nil, failed(c.options, "query", about(statement, err))
	}
	defer r.Close()
	if r.Resultset == nil || r.RowNumber() == 0 {
		return nil, nil
	}
	row := map[string]string{}
	for j, field := range r.Fields {
		value, err := r.GetString(0, j)
		if err != nil {
			return nil, failed(c.options, "query", about(statement, err))
		}
		row[string(field.Name)] = strings.Clone(value)
	}
	return row, nil
}

// Value runs a statement and returns the first column of the first row; "" if there is no row.
func (c *Conn) Value(statement string, args ...any) (string, error) {
	rows, err := c.Rows(statement, args...)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// Now returns the time by the server's clock.
func (c *Conn) Now() (time.Time, error) {
	text, err := c.Value("SELECT UNIX_TIMESTAMP(NOW(6))")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the server's clock: %w", err)
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
}

// Do runs a statement.
func (c *Conn) Do(statement string, args ...any) error {
	_, err := c.Rows(statement, args...)
	return err
}

// brief shortens a statement for a message, and omits parts that may be secret.
func brief(statement string) string {
	statement, _, _ = strings.Cut(statement, "\n")
	if i := strings.Index(statement, "IDENTIFIED"); i >= 0 {
		statement = statement[:i] + "IDENTIFIED …"
	}
	return statement[:min(len(statement), 120)]
}

// Code returns the number of the server's error, or 0.
func Code(err error) uint16 {
	var e *mysql.MyError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// accessDeniedNoPassword is ER_ACCESS_DENIED_NO_PASSWORD_ERROR: the account exists, but its plugin accepts no password.
const accessDeniedNoPassword = 1698

// failed wraps an error with the attempted action, and sets its reason.
func failed(o Options, did string, err error) error {
	what := fmt.Sprintf("%s server %s as user %s", did, o.Address, o.User)
	switch Code(err) {
	case mysql.ER_ACCESS_DENIED_ERROR, accessDeniedNoPassword, mysql.ER_DBACCESS_DENIED_ERROR, mysql.ER_TABLEACCESS_DENIED_ERROR, mysql.ER_SPECIFIC_ACCESS_DENIED_ERROR,
		mysql.ER_HOST_NOT_PRIVILEGED, 3118, 4151, 1820:
		return contract.Errorf(contract.ReasonAccessDenied, "%s: the server refuses the account: correct the password in the Secret, or the account's rights: %w", what, err)
	case 0:
		return contract.Errorf(contract.ReasonServerUnreachable, "%s: %w", what, err)
	case mysql.ER_CON_COUNT_ERROR, mysql.ER_SERVER_SHUTDOWN:
		return contract.Errorf(contract.ReasonServerUnreachable, "%s: %w", what, err)
	}
	return contract.Errorf(contract.ReasonFailed, "%s: %w", what, err)
}

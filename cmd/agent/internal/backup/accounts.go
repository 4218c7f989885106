// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// own lists the accounts that every server creates for itself.
var own = map[string]bool{"mysql.sys": true, "mysql.session": true, "mysql.infoschema": true, "mariadb.sys": true, "mysql": true}

// public is a role of MariaDB that always exists, and that every account has.
const public = "PUBLIC"

// account is an account or a role of a server.
type account struct {
	name, host string
	isRole     bool // true only for a role of MariaDB, which has no host and no password
}

func (a account) String() string {
	switch {
	case a.isRole && a.name == public:
		return public
	case a.isRole:
		return server.Quote(a.name)
	}
	return server.Literal(a.name) + "@" + server.Literal(a.host)
}

// isRoot reports whether the account is root@localhost, which every server has. A restore sets its password.
func (a account) isRoot() bool { return a.name == "root" && a.host == "localhost" && !a.isRole }

// accounts holds the statements that recreate the accounts of a server with their hashed passwords. It also holds warnings about accounts
// that could not be read.
type accounts struct {
	// A restore runs these statements in this order: roles and accounts, then their rights, then their default roles. Within each group
	// the order does not matter.
	create, grant, defaults []string
	warnings                []string
	// isDenied reports whether the right to read accounts is missing.
	isDenied bool
}

func (a accounts) String() string {
	text := "-- Accounts. A backslash escapes, and no GRANT makes an account without a password.\n" +
		"SET SESSION sql_mode = IF(VERSION() LIKE '%MariaDB%' OR VERSION() LIKE '5.%', 'NO_AUTO_CREATE_USER', '');\n"
	for _, statement := range slices.Concat(a.create, a.grant, a.defaults) {
		text += statement + ";\n"
	}
	return text
}

// putAccounts writes the object with the accounts.
func (r *run) putAccounts(ctx context.Context, a accounts) error {
	if a.isDenied {
		r.Manifest.Warnings = append(r.Manifest.Warnings, "the accounts are not in the backup: the account of the backup may not read table mysql.user")
		return nil
	}
	r.Manifest.Warnings = append(r.Manifest.Warnings, a.warnings...)
	object, err := r.Put(ctx, "accounts.sql", func(w io.Writer) error {
		_, err := io.WriteString(w, a.String())
		return err
	})
	if err == nil {
		r.Manifest.Objects = append(r.Manifest.Objects, object)
	}
	return err
}

// readAccounts reads all accounts of a server. An account that cannot be read causes a warning, but the other accounts are saved.
func readAccounts(conn *server.Conn) (a accounts, err error) {
	all, err := list(conn)
	if a.isDenied = err != nil && contract.ReasonOf(err) == contract.ReasonAccessDenied; err != nil && !a.isDenied {
		return a, err
	}
	for _, one := range all {
		if err := a.add(conn, one); contract.ReasonOf(err) == contract.ReasonServerUnreachable {
			return a, err
		} else if err != nil {
			a.warnings = append(a.warnings, fmt.Sprintf("account %s is not wholly in the backup: %v", one, err))
		}
	}
	if a.isDenied || !conn.Version.AtLeast(8, 0, 14) {
		return a, nil
	}
	return a, a.secondPasswords(conn)
}

// secondPasswords warns of accounts with a second password (RETAIN CURRENT PASSWORD), which SHOW CREATE USER omits.
func (a *accounts) secondPasswords(conn *server.Conn) error {
	rows, err := conn.Rows("SELECT User, Host FROM mysql.user WHERE JSON_CONTAINS_PATH(User_attributes, 'one', '$.additional_password') ORDER BY 1, 2")
	var names []string
	for _, row := range rows {
		names = append(names, account{name: row[0], host: row[1]}.String())
	}
	a.warnings = append(a.warnings, named("the former passwords of accounts with two passwords are not in the backup: ALTER USER … DISCARD OLD PASSWORD when no client uses them", names)...)
	return err
}

// list returns the accounts and the roles of a server.
func list(conn *server.Conn) ([]account, error) {
	settings := []string{"SET SESSION sql_mode = ''"}
	if conn.Version.AtLeast(8, 0, 17) {
		settings = append(settings, "SET SESSION print_identified_with_as_hex = ON") // some newer plugins have binary hashes
	}
	for _, setting := range settings {
		if err := conn.Do(setting); err != nil {
			return nil, err
		}
	}
	query := "SELECT User, Host, 'false' FROM mysql.user ORDER BY 1, 2"
	if conn.Version.Flavour == server.MariaDB {
		query = "SELECT User, Host, IFNULL(JSON_VALUE(Priv, '$.is_role'), 'false') FROM mysql.global_priv ORDER BY 1, 2"
	}
	rows, err := conn.Rows(query)
	if err != nil {
		return nil, err
	}
	var all []account
	for _, row := range rows {
		if one := (account{row[0], row[1], row[2] == "true" || row[2] == "1"}); !own[one.name] {
			all = append(all, one)
		}
	}
	return all, nil
}

// add reads an account, and appends the statements that recreate the account.
func (a *accounts) add(conn *server.Conn, one account) error {
	switch {
	case one.isRole && one.name == public, one.isRoot(): // these accounts exist on every server
	case one.isRole:
		a.create = append(a.create, "CREATE ROLE IF NOT EXISTS "+one.String())
	default:
		made, err := conn.Value("SHOW CREATE USER " + one.String())
		if err != nil {
			return err
		}
		made, roles := withoutDefaultRoles(strings.Replace(made, "CREATE USER", "CREATE USER IF NOT EXISTS", 1))
		a.create = append(a.create, made)
		if roles != "" {
			a.defaults = append(a.defaults, "ALTER USER "+one.String()+" DEFAULT ROLE "+roles)
		}
	}
	rights, err := conn.Rows("SHOW GRANTS FOR " + one.String())
	if err != nil {
		return err
	}
	for _, right := range rights {
		switch isOfRole := strings.HasPrefix(right[0], "GRANT `"); {
		case strings.HasPrefix(right[0], "SET DEFAULT ROLE "):
			a.defaults = append(a.defaults, right[0])
		case one.isRoot() && !isOfRole: // root has all rights
		case !slices.Contains(a.grant, right[0]): // SHOW GRANTS repeats a role's rights for each account that has the role
			a.grant = append(a.grant, right[0])
		}
	}
	return nil
}

// withoutDefaultRoles removes MySQL's clause for default roles from a CREATE USER statement, because the roles may be created later. It
// also returns these roles.
func withoutDefaultRoles(statement string) (rest, roles string) {
	const clause, next = " DEFAULT ROLE ", " REQUIRE "
	begin := outside(statement, clause)
	if begin < 0 {
		return statement, ""
	}
	tail := statement[begin+len(clause):]
	end := outside(tail, next)
	if end < 0 {
		return statement, ""
	}
	return statement[:begin] + tail[end:], tail[:end]
}

// outside returns the offset of a text outside of quotes in a statement; -1 if there is none.
func outside(statement, text string) int {
	var quotes server.Quotes
	for i := range len(statement) {
		if quotes.IsOutside() && strings.HasPrefix(statement[i:], text) {
			return i
		}
		quotes.Take(statement[i])
	}
	return -1
}

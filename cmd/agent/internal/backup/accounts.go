// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// own are accounts that every server has, and that a restore makes itself.
var own = map[string]bool{"root": true, "mysql.sys": true, "mysql.session": true, "mysql.infoschema": true, "mariadb.sys": true, "mysql": true,
	"PUBLIC": true, "": true}

// accounts writes the object with the statements that make the accounts again, with their hashed passwords.
func (r *run) accounts(ctx context.Context) error {
	statements, err := statements(r.conn, r.options.SkipAccounts)
	if err != nil {
		if contract.ReasonOf(err) != contract.ReasonAccessDenied {
			return err
		}
		r.Manifest.Warnings = append(r.Manifest.Warnings, "the accounts are not in the backup: the account that makes it may not read table mysql.user")
		return nil
	}
	object, err := r.Put(ctx, "accounts.sql", func(w io.Writer) error {
		_, err := io.WriteString(w, statements)
		return err
	})
	if err == nil {
		r.Manifest.Objects = append(r.Manifest.Objects, object)
	}
	return err
}

func statements(conn *server.Conn, skip []string) (string, error) {
	if conn.Version.AtLeast(8, 0, 17) {
		// The hashes of newer plugins are not text.
		if err := conn.Do("SET SESSION print_identified_with_as_hex = ON"); err != nil {
			return "", err
		}
	}
	where := ""
	if conn.Version.Flavour == server.MariaDB {
		where = " WHERE IFNULL(JSON_VALUE(Priv, '$.is_role'), 'false') NOT IN ('true', '1')"
	}
	rows, err := conn.Rows(userQuery(where))
	if err != nil {
		return "", err
	}
	skipped := map[string]bool{}
	for _, name := range skip {
		skipped[name] = true
	}
	var create, grant strings.Builder
	for _, row := range rows {
		if own[row[0]] || skipped[row[0]] {
			continue
		}
		account := literal(row[0]) + "@" + literal(row[1])
		made, err := conn.Value("SHOW CREATE USER " + account)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&create, "%s;\n", strings.Replace(made, "CREATE USER", "CREATE USER IF NOT EXISTS", 1))
		rights, err := conn.Rows("SHOW GRANTS FOR " + account)
		if err != nil {
			return "", err
		}
		for _, right := range rights {
			fmt.Fprintf(&grant, "%s;\n", right[0])
		}
	}
	return "-- Accounts\n" + create.String() + grant.String(), nil
}

func userQuery(where string) string {
	if where == "" {
		return "SELECT User, Host FROM mysql.user ORDER BY 1, 2"
	}
	return "SELECT User, Host FROM mysql.global_priv" + where + " ORDER BY 1, 2"
}

func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

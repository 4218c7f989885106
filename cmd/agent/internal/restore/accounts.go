// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// accountsObject begins the names of the objects with the statements that create accounts.
const accountsObject = "accounts.sql"

// mostWarnings limits the warnings about failed statements. One more warning counts the remaining failed statements.
const mostWarnings = 20

func isAccounts(o manifest.Object) bool { return strings.HasPrefix(o.Name, accountsObject) }

// loadAccounts runs the statements of the backup's accounts one by one. A refused statement causes a warning, but the next statements still
// run. For example, a grant on a dropped table, or a plugin that this server lacks, does not end a restore.
func (s Source) loadAccounts(ctx context.Context, i *Instance) ([]string, error) {
	conn, err := i.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// With this mode, a GRANT does not create an account whose CREATE USER failed. Servers without this mode never
	// create accounts by GRANT.
	if conn.Do("SET SESSION sql_mode = 'NO_AUTO_CREATE_USER'") != nil {
		if err := conn.Do("SET SESSION sql_mode = ''"); err != nil {
			return nil, err
		}
	}
	var warnings []string
	failed := 0
	for _, o := range s.Backup.Objects {
		if !isAccounts(o) {
			continue
		}
		text := &bytes.Buffer{}
		if err := s.Copy(ctx, o, text); err != nil {
			return nil, err
		}
		for _, statement := range split(text.String()) {
			if strings.HasPrefix(statement, "SET SESSION ") {
				continue
			}
			err := conn.Do(statement)
			if contract.ReasonOf(err) == contract.ReasonServerUnreachable {
				return nil, err
			}
			if err != nil {
				if failed++; failed <= mostWarnings {
					warnings = append(warnings, "accounts: "+server.Refusal(statement, err))
				}
			}
		}
	}
	if failed > mostWarnings {
		warnings = append(warnings, fmt.Sprintf("accounts: %d more statements were refused", failed-mostWarnings))
	}
	return warnings, nil
}

// split returns the statements of a text. A statement ends with a semicolon outside of quotes at the end of a line. split omits comment
// lines.
func split(text string) []string {
	var statements []string
	var quotes server.Quotes
	begin := 0
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case i == begin && strings.HasPrefix(rest, "-- "):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return statements
			}
			i += end
			begin = i + 1
		case quotes.IsOutside() && strings.HasPrefix(rest, ";\n"):
			statements = append(statements, strings.TrimSpace(text[begin:i]))
			i++
			begin = i + 1
		default:
			quotes.Take(text[i])
		}
	}
	return statements
}

// admit creates a temporary account for this restore, because the replay may change root's password, or lock or drop root.
func (i *Instance) admit(ctx context.Context) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	random := [20]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	name, password := fmt.Sprintf("d3os_restore_%x", random[:4]), fmt.Sprintf("Aa1!%x", random[4:])
	account := server.Literal(name) + "@'localhost'"
	for _, statement := range []string{"CREATE USER " + account + " IDENTIFIED BY " + server.Literal(password), "GRANT ALL PRIVILEGES ON *.* TO " + account + " WITH GRANT OPTION"} {
		if err := conn.Do(statement); err != nil {
			return err
		}
	}
	i.user, i.password = name, password
	return nil
}

// bare removes the anonymous accounts, and root at every host except localhost. A new database may have these accounts,
// without passwords. Call bare before loading the accounts of the backup.
func (i *Instance) bare(ctx context.Context) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := conn.Rows("SELECT User, Host FROM mysql.user WHERE User = '' OR User = 'root' AND Host <> 'localhost'")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := conn.Do("DROP USER " + server.Literal(row[0]) + "@" + server.Literal(row[1])); err != nil {
			return err
		}
	}
	return nil
}

// secure sets the passwords of root and of the services' account. It removes the accounts that only the restore needed.
func secure(ctx context.Context, i *Instance, t Target, temporary []string) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Do("SET SESSION sql_mode = ''"); err != nil {
		return err
	}
	statements, err := drops(conn, temporary)
	if err != nil {
		return err
	}
	services, err := forServices(conn, t)
	if err != nil {
		return err
	}
	statements = append(statements, services...)
	if t.RootPassword != "" {
		const root = "'root'@'localhost'"
		statements = append(statements, "CREATE USER IF NOT EXISTS "+root, "ALTER USER "+root+" IDENTIFIED BY "+server.Literal(t.RootPassword), "ALTER USER "+root+" ACCOUNT UNLOCK",
			"GRANT ALL PRIVILEGES ON *.* TO "+root+" WITH GRANT OPTION")
	}
	if i.user != "" {
		statements = append(statements, "DROP USER "+server.Literal(i.user)+"@'localhost'")
	}
	for _, statement := range statements {
		if err := conn.Do(statement); err != nil {
			return err
		}
	}
	return nil
}

// drops returns the statements that remove accounts by name.
func drops(conn *server.Conn, names []string) (statements []string, err error) {
	for _, name := range names {
		rows, err := conn.Rows("SELECT Host FROM mysql.user WHERE User = ?", name)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			statements = append(statements, "DROP USER "+server.Literal(name)+"@"+server.Literal(row[0]))
		}
	}
	return statements, nil
}

// forServices returns the statements that set the password of the services' account. If the backup lacks the account,
// the statements also create it and grant its rights.
func forServices(conn *server.Conn, t Target) ([]string, error) {
	if t.Account == "" {
		return nil, nil
	}
	account := server.Literal(t.Account) + "@'%'"
	there, err := conn.Rows("SELECT 1 FROM mysql.user WHERE User = ? AND Host = '%'", t.Account)
	if err != nil {
		return nil, err
	}
	statements := []string{"CREATE USER IF NOT EXISTS " + account, "ALTER USER " + account + " IDENTIFIED BY " + server.Literal(t.AccountPassword)}
	if len(there) > 0 {
		return statements, nil
	}
	databases, err := conn.Rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')")
	if err != nil {
		return nil, err
	}
	for _, row := range databases {
		// In the database name of a GRANT, an unescaped underscore matches any character.
		name := strings.NewReplacer("`", "``", "_", `\_`, "%", `\%`).Replace(row[0])
		statements = append(statements, "GRANT ALL PRIVILEGES ON `"+name+"`.* TO "+account)
	}
	return statements, nil
}

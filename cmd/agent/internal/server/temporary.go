// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"fmt"
	"os"
)

// TemporaryAccount is the account of the agent on data with unknown passwords. The agent removes it before the data is used.
const TemporaryAccount = "d3os_temporary"

// InitFile writes a file with statements that create the temporary account when a server starts. It returns the account's password. Only
// the server's user may read the file.
func InitFile(path string) (password string, err error) {
	password = rand.Text()
	text := fmt.Sprintf("SET SESSION sql_log_bin = 0;\nDROP USER IF EXISTS %[1]s@localhost;\nCREATE USER %[1]s@localhost IDENTIFIED BY %[2]s;\nGRANT ALL ON *.* TO %[1]s@localhost WITH GRANT OPTION;\n",
		TemporaryAccount, Literal(password))
	if err = os.WriteFile(path, []byte(text), 0o600); err != nil {
		err = fmt.Errorf("write the server's init file: %w", err)
	}
	return password, err
}

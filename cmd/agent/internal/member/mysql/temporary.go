// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"crypto/rand"
	"fmt"
	"os"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// TemporaryAccount is the account by which the agent works on data whose passwords it does not know. It is gone when the data counts.
const TemporaryAccount = "d3os_temporary"

// InitFile writes a file by which a server creates the temporary account at its start, and returns the password. The file is for the server alone.
func InitFile(path string) (password string, err error) {
	password = rand.Text()
	text := fmt.Sprintf("SET SESSION sql_log_bin = 0;\nDROP USER IF EXISTS %[1]s@localhost;\nCREATE USER %[1]s@localhost IDENTIFIED BY %[2]s;\nGRANT ALL ON *.* TO %[1]s@localhost WITH GRANT OPTION;\n",
		TemporaryAccount, server.Literal(password))
	if err = os.WriteFile(path, []byte(text), 0o600); err != nil {
		err = fmt.Errorf("write the first statements of a server: %w", err)
	}
	return password, err
}

// RelaxPasswords are the options with which a component that judges passwords accepts generated ones.
var RelaxPasswords = []string{
	"--loose-validate_password.policy=LOW", "--loose-validate_password.length=0", "--loose-validate_password.number_count=0", "--loose-validate_password.special_char_count=0",
	"--loose-validate_password.mixed_case_count=0", "--loose-validate_password.check_user_name=OFF",
}

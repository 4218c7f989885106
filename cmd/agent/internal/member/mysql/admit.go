// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// passwordOf returns the password of a member's account for one server of the member. server is the server's UUID.
// After a member was recreated, its old server may still run. That server has another UUID, so it cannot log in. The
// password has 32 characters, the maximum for replication. It begins with characters of all classes, so that password
// validation components accept it.
func passwordOf(password, server string) string {
	if server == "" {
		return password
	}
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(server))
	return "Aa1-Bb2_" + hex.EncodeToString(mac.Sum(nil))[:24]
}

// cut locks the accounts of the members in cut, and ends their connections. It then unlocks the accounts of all other members. If
// such an account does not have the password of the member's present server, cut first locks it, and then sets this password. The
// locked members may have received the log up to cutEnd.
func (m *Member) cut(c *server.Conn, cut []int, servers map[int]string) error {
	if err := run(c, "SET SESSION sql_log_bin = 0"); err != nil {
		return err
	}
	var users []string
	for i := range m.Members {
		if i == m.Ordinal || !slices.Contains(cut, i) && m.hasAdmitted(i, servers[i]) {
			continue
		}
		users = append(users, Account(i))
		if err := run(c, "ALTER USER "+Account(i)+" ACCOUNT LOCK"); err != nil {
			return fmt.Errorf("refuse the connection of member %d: %w", i, err)
		}
	}
	if err := disconnect(c, users); err != nil {
		return err
	}
	end, err := c.Position()
	switch {
	case err != nil:
		return fmt.Errorf("read the end of the binary log: %w", err)
	case end == nil:
		return contract.Errorf(contract.ReasonNoBinaryLog, "the server keeps no binary log")
	}
	m.cutEnd = mysqlmember.Position{File: end.File, Offset: end.Offset}
	for i := range m.Members {
		if i != m.Ordinal && !slices.Contains(cut, i) {
			if err := m.admit(c, i, servers[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasAdmitted reports whether the account of a member has the password for this server.
func (m *Member) hasAdmitted(ordinal int, server string) bool {
	now, isKnown := m.admitted[ordinal]
	return isKnown && now == server
}

// admit unlocks the account of a member. If this agent has not yet set the password of the member's server, admit sets it: another primary
// may have set another password, because account changes are not replicated.
func (m *Member) admit(c *server.Conn, ordinal int, id string) error {
	alter := "ALTER USER " + Account(ordinal)
	statements := []string{alter + " ACCOUNT UNLOCK"}
	if !m.hasAdmitted(ordinal, id) { // after a restart, the primary sets the same password again: the first statement permits this
		statements = []string{alter + " PASSWORD EXPIRE NEVER PASSWORD HISTORY 0 PASSWORD REUSE INTERVAL 0 DAY",
			alter + " IDENTIFIED BY " + server.Literal(passwordOf(m.Password, id)) + " ACCOUNT UNLOCK"}
	}
	if err := run(c, statements...); err != nil {
		return fmt.Errorf("allow member %d to connect: %w", ordinal, err)
	}
	if m.admitted == nil {
		m.admitted = map[int]string{}
	}
	m.admitted[ordinal] = id
	return nil
}

// servers returns the UUIDs of the servers that have a separate password and may connect, by the members' ordinals.
func (m *Member) servers() map[int]string {
	all := map[int]string{}
	for ordinal, id := range m.admitted {
		if id != "" && !slices.Contains(m.cutVoters, ordinal) && !slices.Contains(m.cutOthers, ordinal) {
			all[ordinal] = id
		}
	}
	return all
}

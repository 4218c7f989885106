// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// state is everything on a server except rows and accounts. A dump reads it without a snapshot, at unknown times. If the state is the same
// before and after the dump, it was also the same at the dump's position.
type state struct {
	tables  []server.Table
	schemas []string
	objects map[string]string // definitions of views, routines, triggers, events, sequences and schemas, by name
}

func (r *run) state() (s state, err error) {
	if s.schemas, err = r.conn.Schemas(); err != nil {
		return s, err
	}
	if s.tables, err = r.conn.Tables(); err != nil {
		return s, err
	}
	s.objects, err = r.conn.Definitions()
	return s, err
}

// same returns ErrChanged if the other state differs from this one.
func (s state) same(other state) error {
	if fmt.Sprint(s.tables) != fmt.Sprint(other.tables) {
		return dump.ErrChanged
	}
	var names []string
	for name, definition := range other.objects {
		if s.objects[name] != definition {
			names = append(names, name)
		}
	}
	for name := range s.objects {
		if _, ok := other.objects[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: %s", dump.ErrChanged, strings.Join(names[:min(len(names), 3)], ", "))
	}
	return nil
}

// errAccounts reports that an account changed while the dump began. The attempt ends before it dumps any rows, and
// another attempt may succeed.
var errAccounts = errors.New("accounts or their rights were changed while the dump began")

// accountTries limits the attempts to begin a dump without a concurrent change of accounts. An attempt takes little more time than
// reading all accounts.
const accountTries = 30

// accountStatements reads the counters of statements that change accounts. The counters also show a change that was undone.
const accountStatements = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_create_user', 'Com_alter_user', 'Com_rename_user', 'Com_drop_user', 'Com_grant', 'Com_revoke', 'Com_revoke_all', 'Com_set_password', " +
	"'Com_create_role', 'Com_drop_role', 'Com_grant_roles', 'Com_revoke_roles', 'Com_grant_role', 'Com_revoke_role', 'Com_alter_user_default_role', 'Com_set_default_role')"

// beginAccounts reads all accounts before a dump begins. areSame returns errAccounts if an account has changed since then. So if areSame
// returns nil after the dump's position was fixed, no account changed between the read and the position.
func (r *run) beginAccounts() (found accounts, areSame func() error, err error) {
	ran, err := r.conn.Rows(accountStatements)
	if err != nil {
		return found, nil, err
	}
	if found, err = readAccounts(r.conn); err != nil {
		return found, nil, err
	}
	return found, func() error {
		if found.isDenied {
			return nil
		}
		if err := r.conn.Limit(time.Now().Add(5 * time.Minute)); err != nil {
			return err
		}
		now, err := readAccounts(r.conn)
		if err != nil {
			return err
		}
		runs, err := r.conn.Rows(accountStatements)
		if err == nil && (fmt.Sprint(ran) != fmt.Sprint(runs) || found.String() != now.String()) {
			err = contract.Errorf(contract.ReasonDumpFailed, "dump server %s: %w", r.options.Server.Address, errAccounts)
		}
		return errors.Join(err, r.conn.Limit(time.Time{}))
	}, nil
}

// Definitions returns a text for the definition of each object of a server, and one text for all accounts. A text
// changes only if its definition changes. It does not change when the server restarts or rebuilds a table.
func Definitions(conn *server.Conn) (map[string]string, error) {
	all, err := conn.Definitions()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, definition := range all {
		if !server.IsPhysical(name) {
			found[name] = definition
		}
	}
	a, err := readAccounts(conn)
	if err != nil {
		return nil, err
	}
	found["accounts and their rights"] = fmt.Sprintf("%x", sha256.Sum256([]byte(a.String())))
	return found, nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// state is everything on a server except rows. A dump reads it without a snapshot, at unknown moments. So it must be the same before and
// after the dump: then it is also the state at the dump's position.
type state struct {
	tables   []server.Table
	schemas  []string
	objects  map[string]string // definitions of views, routines, triggers, events, sequences and schemas, by name
	accounts accounts
}

func (r *run) state() (s state, err error) {
	if s.schemas, err = r.conn.Schemas(); err != nil {
		return s, err
	}
	if s.tables, err = r.conn.Tables(); err != nil {
		return s, err
	}
	if s.objects, err = r.conn.Definitions(); err != nil {
		return s, err
	}
	s.accounts, err = readAccounts(r.conn)
	return s, err
}

// same fails with ErrChanged if another state differs.
func (s state) same(other state) error {
	if fmt.Sprint(s.tables) != fmt.Sprint(other.tables) {
		return dump.ErrChanged
	}
	if s.accounts.String() != other.accounts.String() {
		return fmt.Errorf("%w: accounts or their rights were", dump.ErrChanged)
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

// Definitions returns a text for the definition of each object of a server, and one for all accounts. A text changes only with its
// definition: neither a restart of the server nor a rebuilt table changes one.
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

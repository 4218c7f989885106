// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/guard"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// adopt converts the data of a single server to the data of this member, in place. It starts a server that only this agent can reach and
// creates the members' accounts there. Until Volume.Adopt is called, the data still belongs to the single server: each step can be
// repeated, and the single server can start on the data again.
func (a *Agent) adopt(ctx context.Context, t mysql.Ticket) error {
	v, err := guard.ReadVolume(a.Volume.Root, a.Volume.Data)
	if err != nil {
		return err
	}
	program, err := server.ProgramVersion(ctx, a.Server.Program)
	if err != nil {
		return err
	}
	image, _ := guard.ParseVersion(program.Text)
	if why := v.NoMember(image); why != "" {
		return contract.Errorf(contract.ReasonRefused, "adopt the data of one server: %s", why)
	}
	at("looked")
	if err := a.takeAccounts(ctx, a.Volume.Folder(), onlyInnoDB); err != nil {
		return err
	}
	at("accounts taken over")
	id, err := volume.ServerOf(a.Volume.Folder())
	if err != nil {
		return err
	}
	return a.Volume.Adopt(t.Mark, id, t.Text)
}

// onlyInnoDB returns an error if the data has tables of other engines than InnoDB: copies by CLONE lack the rows of these tables.
func onlyInnoDB(c *server.Conn) error {
	rows, err := c.Rows("SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB'" +
		" AND table_schema NOT IN ('mysql', 'performance_schema', 'information_schema', 'sys') LIMIT 5")
	if err != nil {
		return fmt.Errorf("list tables without transactions: %w", err)
	}
	var tables []string
	for _, row := range rows {
		tables = append(tables, fmt.Sprintf("%s.%s (%s)", row[0], row[1], row[2]))
	}
	if len(tables) > 0 {
		return contract.Errorf(contract.ReasonRefused, "adopt the data of one server: these tables have no transactions, and no copy would have their rows: %s", strings.Join(tables, ", "))
	}
	return nil
}

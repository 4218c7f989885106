// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Verb is the action that a ticket allows.
type Verb string

// The verbs. Package mysqlmember documents each.
const (
	Primary Verb = mysqlmember.TicketPrimary
	Seed    Verb = mysqlmember.TicketSeed
	Adopt   Verb = mysqlmember.TicketAdopt
	Join    Verb = mysqlmember.TicketJoin
	Fence   Verb = mysqlmember.TicketFence
)

// Ticket is the operator's permission for one action.
type Ticket struct {
	// Text is the whole ticket; empty for none.
	Text string
	Verb Verb
	// primary sets Order and Demands. join sets Order.Revision, Source and Server. adopt sets Mark.
	Order   mysqlmember.Order
	Demands int
	Source  int
	Server  string
	Mark    string
}

var markID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

var serverUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseTicket parses a ticket. An empty text and "none" mean no ticket.
func ParseTicket(text string) (Ticket, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "none" {
		return Ticket{}, nil
	}
	fields := strings.Split(text, ":")
	t := Ticket{Text: text, Verb: Verb(fields[0])}
	var valid bool
	switch {
	case t.Verb == Primary && len(fields) == 4:
		t.Order.Epoch, t.Order.Revision, t.Demands = int64(number(fields[1])), int64(number(fields[2])), number(fields[3])
		valid = t.Order.Epoch > 0 && t.Order.Revision > 0 && t.Demands >= 0
	case t.Verb == Join && len(fields) == 4:
		t.Order.Revision, t.Source, t.Server = int64(number(fields[1])), number(fields[2]), fields[3]
		valid = t.Order.Revision > 0 && t.Source >= 0 && serverUUID.MatchString(t.Server)
	case t.Verb == Adopt && len(fields) == 2:
		t.Mark = fields[1]
		valid = markID.MatchString(t.Mark)
	default:
		valid = (t.Verb == Seed || t.Verb == Fence) && len(fields) == 1
	}
	if !valid {
		return Ticket{}, fmt.Errorf("read the ticket %.100q: it must be primary:EPOCH:REVISION:ACKNOWLEDGEMENTS, seed, adopt:MARK, join:REVISION:ORDINAL:SERVER or fence", text)
	}
	return t, nil
}

// number parses a decimal number without a sign. It returns -1 for other texts.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

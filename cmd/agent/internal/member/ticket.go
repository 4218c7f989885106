// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// Verb is the action that a ticket allows.
type Verb string

// The verbs of tickets. The package documentation describes each.
const (
	Seed  Verb = etcdmember.TicketSeed
	Join  Verb = etcdmember.TicketJoin
	Force Verb = etcdmember.TicketForce
)

// Ticket is the operator's permission for one start.
type Ticket struct {
	// Text is the whole ticket; empty for none.
	Text string
	Verb Verb
	// Argument is the token for seed (may be empty) and for force, and the member's ID for join.
	Argument string
}

// ParseTicket parses a ticket. An empty text means no ticket.
func ParseTicket(text string) (Ticket, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == etcdmember.TicketNone {
		return Ticket{}, nil
	}
	verb, argument, _ := strings.Cut(text, ":")
	ticket := Ticket{Text: text, Verb: Verb(verb), Argument: argument}
	if !slices.Contains([]Verb{Seed, Join, Force}, ticket.Verb) || argument == "" && ticket.Verb != Seed || strings.ContainsAny(text, "\n\r") {
		return Ticket{}, fmt.Errorf("the ticket %q is unknown to this version: it must be seed, join:ID or force:TOKEN", text)
	}
	return ticket, nil
}

// usedFile is the name of the note with used tickets. Its folder lives as long as the pod.
const usedFile = "used-tickets"

// ReadUsed returns the texts of the tickets that were used in this pod.
func ReadUsed(folder string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, usedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read which tickets were used: %w", err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), nil
}

// NoteUsed records that a ticket is used. The caller calls it before the server starts with the ticket.
func NoteUsed(folder, ticket string) error {
	used, err := ReadUsed(folder)
	if err != nil {
		return err
	}
	if slices.Contains(used, ticket) {
		return nil
	}
	if err := WriteDurably(filepath.Join(folder, usedFile), []byte(strings.Join(append(used, ticket), "\n")+"\n")); err != nil {
		return fmt.Errorf("note that the ticket %s is used: %w", ticket, err)
	}
	return nil
}

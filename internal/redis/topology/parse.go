// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const idLength = 40

// ParseNodes parses the reply to CLUSTER NODES of Redis 6.2 to 8 and of Valkey. It rejects unknown syntax, because a step that depends on a
// wrong line may lose data.
func ParseNodes(text string) ([]Entry, error) {
	var entries []Entry
	seen, myself := map[string]bool{}, 0
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		entry, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("CLUSTER NODES: line %q: %w", line, err)
		}
		if seen[entry.ID] {
			return nil, fmt.Errorf("CLUSTER NODES: node %s has two lines", entry.ID)
		}
		seen[entry.ID] = true
		if entry.Myself {
			myself++
		}
		entries = append(entries, entry)
	}
	if myself != 1 {
		return nil, fmt.Errorf("CLUSTER NODES: %d lines have the flag myself, but exactly one line must have it", myself)
	}
	return entries, nil
}

func parseEntry(line string) (Entry, error) {
	fields := strings.Split(line, " ")
	if len(fields) < 8 {
		return Entry{}, fmt.Errorf("it has %d fields, not 8 or more", len(fields))
	}
	e := Entry{ID: fields[0]}
	if !isNodeID(e.ID) {
		return Entry{}, fmt.Errorf("%q is not a node id", e.ID)
	}
	if err := e.parseAddress(fields[1]); err != nil {
		return Entry{}, err
	}
	if err := e.parseFlags(fields[2]); err != nil {
		return Entry{}, err
	}
	if e.MasterID = fields[3]; e.MasterID == "-" {
		e.MasterID = ""
	} else if !isNodeID(e.MasterID) {
		return Entry{}, fmt.Errorf("%q is not the id of a master", e.MasterID)
	}
	var err error
	if e.PingSent, err = parseMillis(fields[4]); err != nil {
		return Entry{}, err
	}
	if e.PongReceived, err = parseMillis(fields[5]); err != nil {
		return Entry{}, err
	}
	if e.Epoch, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
		return Entry{}, fmt.Errorf("config epoch: %w", err)
	}
	switch fields[7] {
	case "connected":
		e.Connected = true
	case "disconnected":
	default:
		return Entry{}, fmt.Errorf("%q is not the state of a link", fields[7])
	}
	err = e.parseSlots(fields[8:])
	return e, err
}

func isNodeID(text string) bool {
	return len(text) == idLength && strings.Trim(text, "0123456789abcdef") == ""
}

// parseMillis parses a time in milliseconds since 1970. It returns the zero time for 0.
func parseMillis(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("time: %w", err)
	case ms < 0:
		return time.Time{}, fmt.Errorf("time %s is before 1970", text)
	case ms == 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}

// parseAddress parses ip:port@bus-port, then a host name (from Redis 7.0 on), then name=value pairs. IPv6 addresses have no brackets.
func (e *Entry) parseAddress(text string) error {
	address, rest, _ := strings.Cut(text, ",")
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return fmt.Errorf("address %q has no port", text)
	}
	ports := strings.Split(address[colon+1:], "@")
	if len(ports) != 2 {
		return fmt.Errorf("address %q must have a port and a bus port", text)
	}
	for i, port := range []*int{&e.Port, &e.BusPort} {
		n, err := strconv.ParseUint(ports[i], 10, 16)
		if err != nil {
			return fmt.Errorf("address %q: %w", text, err)
		}
		*port = int(n)
	}
	if e.IP = address[:colon]; e.IP != "" {
		ip, err := netip.ParseAddr(e.IP)
		if err != nil {
			return fmt.Errorf("address %q: %w", text, err)
		}
		e.IP = ip.String()
	}
	for i, part := range strings.Split(rest, ",") {
		switch {
		case strings.Contains(part, "="): // shard-id=, tls-port= and such are not used
		case i == 0:
			e.Hostname = part
		default:
			return fmt.Errorf("address %q: %q is not name=value", text, part)
		}
	}
	return nil
}

func (e *Entry) parseFlags(text string) error {
	for flag := range strings.SplitSeq(text, ",") {
		switch flag {
		case "myself":
			e.Myself = true
		case "master":
			e.Master = true
		case "slave", "replica":
			e.Replica = true
		case "fail":
			e.Fail = true
		case "fail?":
			e.PossiblyFail = true
		case "handshake":
			e.Handshake = true
		case "noaddr":
			e.NoAddress = true
		case "nofailover", "noflags":
		default:
			return fmt.Errorf("flag %q is not known", flag)
		}
	}
	switch {
	case e.Master && e.Replica:
		return errors.New("it is master and replica at once")
	case e.Myself && !e.Master && !e.Replica:
		return errors.New("the node itself is neither master nor replica")
	}
	return nil
}

// parseSlots parses 5, 7-9, and open slots: [5->-id] is migrating to id, [5-<-id] is importing from it.
func (e *Entry) parseSlots(fields []string) error {
	var ranges []Range
	for _, field := range fields {
		inner, isOpen := strings.CutPrefix(field, "[")
		if !isOpen {
			set, err := ParseSlotSet(field)
			if err != nil {
				return err
			}
			if len(set) != 1 {
				return fmt.Errorf("%q is not a range of slots", field)
			}
			ranges = append(ranges, set...)
			continue
		}
		if err := e.parseOpen(inner); err != nil {
			return fmt.Errorf("open slot %q: %w", field, err)
		}
	}
	e.Owned = NewSlotSet(ranges...)
	if n := len(ranges); n > 0 && e.Replica {
		return errors.New("a replica owns no slots")
	}
	return nil
}

func (e *Entry) parseOpen(text string) error {
	if !e.Myself {
		return errors.New("only the node itself reports open slots")
	}
	text, closed := strings.CutSuffix(text, "]")
	number, peer, migrating := strings.Cut(text, "->-")
	marks := &e.Migrating
	if !migrating {
		var importing bool
		if number, peer, importing = strings.Cut(text, "-<-"); !importing {
			return errors.New("it is neither migrating nor importing")
		}
		marks = &e.Importing
	}
	slot, err := parseSlot(number)
	if err != nil {
		return err
	}
	if !closed || !isNodeID(peer) {
		return fmt.Errorf("%q is not a node id", peer)
	}
	if *marks == nil {
		*marks = map[int]string{}
	}
	(*marks)[slot] = peer
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// node is a line of CLUSTER NODES.
type node struct {
	id      string
	address string // HOST:PORT; "" if unknown
	flags   []string
	master  string // the id of a replica's master; "" for none
	epoch   uint64 // config epoch
	slots   slots
	open    string // the first slot that is migrating or importing, as Redis writes it; "" for none
}

func (n node) is(flag string) bool { return slices.Contains(n.flags, flag) }

// view is one server's view of its cluster: its own line, and all lines.
type view struct {
	own   node
	nodes []node
}

// parseView parses the answer to CLUSTER NODES. If a server has met no other server, its answer lacks its host. In that case, parseView
// sets the host to which the request was sent.
func parseView(text, host string) (view, error) {
	var v view
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		n, err := parseNode(words)
		if err != nil {
			return v, fmt.Errorf("%w: %q", err, strings.TrimSpace(line))
		}
		if n.is("myself") {
			if own, port, err := net.SplitHostPort(n.address); err == nil && own == "" {
				n.address = net.JoinHostPort(host, port)
			}
			v.own = n
		}
		v.nodes = append(v.nodes, n)
	}
	if v.own.id == "" {
		return v, fmt.Errorf("CLUSTER NODES has no line with the flag myself: %q", text)
	}
	return v, nil
}

// parseNode reads ID ADDRESS FLAGS MASTER PING PONG EPOCH LINK SLOTS...
func parseNode(words []string) (node, error) {
	if len(words) < 8 {
		return node{}, fmt.Errorf("a line with %d words is no node", len(words))
	}
	n := node{id: words[0], flags: strings.Split(words[2], ","), master: strings.Trim(words[3], "-")}
	where, _, _ := strings.Cut(words[1], "@") // followed by the port of the bus and, since Redis 7, the host name
	if i := strings.LastIndex(where, ":"); i >= 0 && !n.is("noaddr") {
		n.address = net.JoinHostPort(where[:i], where[i+1:]) // IPv6 addresses have no brackets here
	}
	var err error
	if n.epoch, err = strconv.ParseUint(words[6], 10, 64); err != nil {
		return n, fmt.Errorf("the config epoch is no number")
	}
	var owned []string
	for _, word := range words[8:] {
		if !strings.HasPrefix(word, "[") {
			owned = append(owned, word)
		} else if n.open == "" {
			n.open = word
		}
	}
	if len(owned) > 0 {
		n.slots, err = parseSlots(strings.Join(owned, ","))
	}
	return n, err
}

// shard is a master with slots.
type shard struct {
	master   node
	replicas []node
}

// equal reports whether a shard is unchanged: no slot was added or removed, and no failover happened. Each of these changes also changes
// the config epoch of a master.
func (s shard) equal(o shard) bool {
	return s.master.id == o.master.id && s.master.epoch == o.master.epoch && slices.Equal(s.master.slots, o.master.slots)
}

// agree returns the shards of a cluster, sorted by their first slots. It fails if the views differ in the owners of slots, if a slot
// does not have exactly one owner, or if a slot is moving.
func agree(views []view) ([]shard, error) {
	owners := map[string]*shard{}
	epochs := map[uint64]bool{}
	var parts []slots
	for _, n := range views[0].nodes {
		if len(n.slots) > 0 {
			owners[n.id] = &shard{master: n}
			epochs[n.epoch] = true
			parts = append(parts, n.slots)
		}
	}
	if err := checkSlots(parts...); err != nil {
		return nil, err
	}
	if len(epochs) != len(owners) {
		return nil, fmt.Errorf("%d masters have %d different config epochs: the servers have not agreed on them yet", len(owners), len(epochs))
	}
	present := map[string]bool{}
	for _, v := range views {
		present[v.own.id] = true
		if err := v.confirms(owners, views[0].own.address); err != nil {
			return nil, err
		}
		if s := owners[v.own.master]; s != nil && v.own.is("slave") {
			s.replicas = append(s.replicas, v.own)
		}
	}
	shards := make([]shard, 0, len(owners))
	for id, s := range owners {
		if !present[id] {
			return nil, errAbsent{s.master}
		}
		shards = append(shards, *s)
	}
	slices.SortFunc(shards, func(a, b shard) int { return a.master.slots[0].from - b.master.slots[0].from })
	return shards, nil
}

// confirms returns an error unless the view names exactly the given owners of slots. by is the address of the server whose view has these
// owners.
func (v view) confirms(owners map[string]*shard, by string) error {
	if v.own.open != "" {
		slot, _, _ := strings.Cut(strings.Trim(v.own.open, "[]"), "-")
		return fmt.Errorf("the move of slot %s has not ended: server %s has the mark %s; a backup starts only when no slot is moving", slot, v.own.address, v.own.open)
	}
	named := map[string]bool{}
	for _, n := range v.nodes {
		if len(n.slots) == 0 {
			continue
		}
		named[n.id] = true
		if s := owners[n.id]; s == nil || !s.equal(shard{master: n}) {
			return fmt.Errorf("servers %s and %s do not agree on the slots of node %s", by, v.own.address, n.id)
		}
	}
	for id := range maps.Keys(owners) {
		if !named[id] {
			return fmt.Errorf("servers %s and %s do not agree on the slots of node %s", by, v.own.address, id)
		}
	}
	if len(v.own.slots) > 0 && !v.own.is("master") {
		return fmt.Errorf("server %s owns slots, but is no master", v.own.address)
	}
	return nil
}

// errAbsent reports that a master could not be reached.
type errAbsent struct{ node }

func (e errAbsent) Error() string {
	return fmt.Sprintf("master %s of slots %s does not answer", e.address, e.slots)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"strings"
	"sync"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// Crash breaks an operator off at one of its commands: it is a server.Tap for one life of a driver. Boundary n of a
// life is before its n-th command, or after its last; commands that are sent in one go are each a boundary of
// their own, because the network may deliver some of them.
type Crash struct {
	// At is the boundary; a life that does not get there is not broken off.
	At int
	// Effects reports that only commands with an effect count.
	Effects bool
	// Moves, unless 0, is the boundary among the commands that move slots, which then are counted apart: there are
	// thousands of them, and few of all others.
	Moves int

	mu    sync.Mutex
	seen  int
	moved int
	dead  bool
	// Where is the command before which it broke off.
	Where string
}

// HasEffect reports whether a command changes anything.
func HasEffect(command string) bool {
	for _, read := range []string{"CLUSTER MYID", "CLUSTER NODES", "CLUSTER COUNTKEYSINSLOT", "CLUSTER GETKEYSINSLOT", "DBSIZE", "INFO", "FUNCTION DUMP"} {
		if strings.HasPrefix(command, read) {
			return false
		}
	}
	return true
}

// IsMove reports whether a command is one of those that move a slot.
func IsMove(command string) bool {
	return strings.HasPrefix(command, "CLUSTER SETSLOT") || strings.HasPrefix(command, "MIGRATE")
}

// Send counts commands, and lets those before the boundary through.
func (c *Crash) Send(_ topology.Place, commands []string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return 0, server.ErrBrokenOff
	}
	for i, command := range commands {
		if c.Effects && !HasEffect(command) {
			continue
		}
		count, boundary := &c.seen, c.At
		if c.Moves > 0 && IsMove(command) {
			count, boundary = &c.moved, c.Moves
		}
		if *count == boundary {
			c.dead, c.Where = true, command
			return i, server.ErrBrokenOff
		}
		*count++
	}
	return len(commands), nil
}

// Received breaks off what another connection of the same life sent.
func (c *Crash) Received(topology.Place, []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return server.ErrBrokenOff
	}
	return nil
}

// Seen returns how many boundaries a life has passed, and whether it was broken off.
func (c *Crash) Seen() (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen, c.dead
}

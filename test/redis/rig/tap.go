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

	mu   sync.Mutex
	seen int
	dead bool
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
		if c.seen == c.At {
			c.dead, c.Where = true, command
			return i, server.ErrBrokenOff
		}
		c.seen++
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

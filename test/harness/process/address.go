// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// Network is the addresses of a test process: 127.x.0.0/16. Linux answers on each without set-up.
type Network struct {
	second int
	claim  net.Listener // who holds it has the network
	mu     sync.Mutex
	last   int
}

// claimPort is outside the range of ports that Linux gives away itself.
const claimPort = 61397

// ClaimNetwork returns a network that no other test process of this machine has.
func ClaimNetwork() (*Network, error) {
	var last error
	for try := range 253 {
		second := 2 + (os.Getpid()*31+try)%253
		claim, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", second, claimPort))
		if err == nil {
			return &Network{second: second, claim: claim, last: 1}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("find free loopback addresses: %w", last)
}

// Host is an address that Next does not give.
func (n *Network) Host() string { return fmt.Sprintf("127.%d.0.1", n.second) }

// Next returns an address that it has not given before, until all have been given away.
func (n *Network) Next() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = max(2, (n.last+1)%(255*256))
	return fmt.Sprintf("127.%d.%d.%d", n.second, n.last/256, n.last%256)
}

// Release gives the network back.
func (n *Network) Release() error { return n.claim.Close() }

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// network is the addresses of a test process: 127.x.0.0/16. Linux answers on each without set-up.
type network struct {
	second int
	claim  net.Listener // who holds it has the network
	mu     sync.Mutex
	last   int
}

// claimPort is outside the range of ports that Linux gives away itself.
const claimPort = 61397

// claimNetwork returns a network that no other emulator of this machine has.
func claimNetwork() (*network, error) {
	var last error
	for try := range 253 {
		second := 2 + (os.Getpid()*31+try)%253
		claim, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", second, claimPort))
		if err == nil {
			return &network{second: second, claim: claim, last: 1}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("find free loopback addresses: %w", last)
}

// host is the address of the nodes.
func (n *network) host() string { return fmt.Sprintf("127.%d.0.1", n.second) }

// next returns an address that no pod has had, until all have been given away.
func (n *network) next() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = max(2, (n.last+1)%(255*256))
	return fmt.Sprintf("127.%d.%d.%d", n.second, n.last/256, n.last%256)
}

func (n *network) release() error { return n.claim.Close() }

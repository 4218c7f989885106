// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import "sync"

// News wakes everybody who waits for news.
type News struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next is closed at the next Raise.
func (n *News) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// Raise wakes those who wait.
func (n *News) Raise() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// waitAtMost ends a wait for something that does not come.
	waitAtMost = time.Hour
	// standstill ends it when nothing has changed for so long.
	standstill = 5 * time.Minute
)

// news wakes everybody who waits for news.
type news struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed at the next raise.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) raise() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// await waits until nothing is missing. It asks again whenever there is news.
func (n *news) await(ctx context.Context, missing func() string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitAtMost, fmt.Errorf("gave up after %s", waitAtMost))
	defer cancel()
	for {
		next := n.next()
		lacks := missing()
		if lacks == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New(lacks), context.Cause(ctx))
		case <-time.After(standstill):
			return fmt.Errorf("%s, and nothing has changed for %s", lacks, standstill)
		case <-next:
		}
	}
}

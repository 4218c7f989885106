// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/test/harness"
)

const (
	// waitAtMost ends a wait for something that does not come.
	waitAtMost = time.Hour
	// standstill ends it when nothing has changed for so long.
	standstill = 5 * time.Minute
)

// await waits until nothing is missing. It asks again whenever there is news.
func await(ctx context.Context, n *harness.News, missing func() string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitAtMost, fmt.Errorf("gave up after %s", waitAtMost))
	defer cancel()
	for {
		next := n.Next()
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

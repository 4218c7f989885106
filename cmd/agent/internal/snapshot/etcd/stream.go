// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"d3os.com/d3os-operator/internal/contract"
)

// silence is the longest time for which the members may send nothing during a snapshot. The client has no such limit: it would wait forever
// for a member that accepts its connection and then hangs.
const silence = 30 * time.Second

// stream writes the snapshot of a member, and verifies its hash. It fails if the members send nothing for the time limit. Waits for the
// store do not count.
func (c Cluster) stream(ctx context.Context, client *clientv3.Client, to io.Writer, limit time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := &fromMember{c: c, ctx: ctx, limit: limit}
	from.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("no member sent anything for %s", limit)) })
	defer from.timer.Stop()
	snapshot, err := client.Snapshot(ctx)
	if err != nil {
		return from.failed(err)
	}
	defer snapshot.Close()
	from.snapshot = snapshot
	check := newTrailer()
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(to, check)}, from, make([]byte, 256<<10)); err != nil {
		return err
	}
	if err := check.verify(); err != nil {
		return contract.Errorf(contract.ReasonDumpFailed, "take a snapshot of %s: %w", c.Endpoint, err)
	}
	return nil
}

// fromMember reads the data of a member. It fails if the member sends nothing for too long. The reason of its errors shows that the member
// failed, and not the store.
type fromMember struct {
	c        Cluster
	ctx      context.Context
	snapshot io.Reader
	limit    time.Duration
	timer    *time.Timer // cancels ctx
}

func (f *fromMember) Read(p []byte) (int, error) {
	f.timer.Reset(f.limit)
	defer f.timer.Stop()
	n, err := f.snapshot.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = f.failed(err)
	}
	return n, err
}

func (f *fromMember) failed(err error) error {
	if cause := context.Cause(f.ctx); cause != nil {
		err = cause
	}
	return f.c.failed("take a snapshot of", err)
}

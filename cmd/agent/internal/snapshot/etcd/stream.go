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

	"d3os.com/d3os-operator/cmd/agent/contract"
)

// silence is how long the members may send nothing while a snapshot is taken. The client sets no limit: it waits for a member
// that takes its connection, for ever.
const silence = 30 * time.Second

// stream writes the snapshot of a member, and holds it against its hash. It fails when the members send nothing for as long as
// limit. What the store takes to write does not count.
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

// fromMember is what a member sends, with a limit for its silence. It gives what goes wrong with a member its reason, so that
// it is told from what goes wrong with the store.
type fromMember struct {
	c        Cluster
	ctx      context.Context
	snapshot io.Reader
	limit    time.Duration
	timer    *time.Timer // ends ctx
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

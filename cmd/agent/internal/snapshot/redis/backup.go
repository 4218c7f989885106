// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"io"

	"d3os.com/d3os-operator/cmd/agent/internal/catalogue"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// mostTries limits the attempts to copy all shards. Slots or masters may change during an attempt.
const mostTries = 3

// errChanged reports that the shards' copies are inconsistent with each other.
var errChanged = errors.New("slots were moved, or a server got another master, while the shards were copied")

// Backup makes a backup of a cluster: an RDB file of each shard, one after the other. Each file contains every write to
// its shard that was acknowledged before the backup began, and some later writes. All keys are in the files, because
// Backup verifies that no slot moved and no master changed between the first copy and the last. It fails with Busy if
// slots do not stop moving. It returns the manifest, and the leftovers of earlier runs that it removed.
func Backup(ctx context.Context, c Cluster, o draft.Options) (*manifest.Backup, []string, error) {
	program, err := server.Find("redis-cli")
	if err != nil {
		return nil, nil, err
	}
	b := &backup{copier: copier{servers: c.servers(), program: program}}
	defer b.Close()
	done, err := o.Claim(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	var removed []string
	for try := 1; ; try++ {
		if b.draft, err = draft.Begin(ctx, o); err != nil {
			return nil, removed, err
		}
		if b.layout, err = b.atRest(ctx); err != nil {
			return nil, removed, err
		}
		if try == 1 {
			if removed, err = catalogue.SweepOld(ctx, o.Store, b.draft.Manifest.Started); err != nil {
				return nil, removed, err
			}
		}
		if err = b.run(ctx); err == nil {
			return &b.draft.Manifest, removed, nil
		}
		b.draft.Discard(ctx)
		if !errors.Is(err, errChanged) {
			return nil, removed, err
		}
		if try == mostTries {
			return nil, removed, contract.Errorf(contract.ReasonBusy, "copy the cluster at %s: tried %d times, and each time %w: make the backup when nothing moves slots or restarts servers", c.Server, try, err)
		}
	}
}

// backup is one attempt.
type backup struct {
	copier
	draft   *draft.Draft
	layout  *layout      // the state before the first copy
	sources map[int]node // by shard
}

// run copies all shards and writes the manifest. It fails with errChanged if the copies are inconsistent with each other.
func (b *backup) run(ctx context.Context) error {
	m := &b.draft.Manifest
	m.Server, m.Tool = manifest.Server{Flavour: Flavour}, "redis-cli"
	b.sources = map[int]node{}
	for i := range b.layout.shards {
		if err := b.shard(ctx, i); err != nil {
			return b.because(ctx, err)
		}
	}
	changed, err := b.changed(ctx)
	switch {
	case err != nil:
		return err
	case changed:
		return errChanged
	}
	return b.draft.Commit(ctx)
}

// shard copies one shard, and adds it to the manifest.
func (b *backup) shard(ctx context.Context, i int) error {
	of, m := b.layout.shards[i], &b.draft.Manifest
	from, isReplica, err := b.source(ctx, b.layout, of)
	if err != nil {
		return err
	}
	b.sources[i] = from
	if !isReplica {
		m.Warnings = append(m.Warnings, fmt.Sprintf("shard %d was copied from its master %s, because no replica had all of its data: a master needs memory for a copy, and answers more slowly during it; "+
			"add a replica to the shard, and check that its replicas are connected to the master", i, from.address))
	}
	stored, err := b.draft.Put(ctx, fmt.Sprintf("shard-%d.rdb", i), func(w io.Writer) error { return b.copy(ctx, from, w) })
	if err != nil {
		return err
	}
	said, err := b.ask(ctx, from.address)
	if err != nil {
		return err
	}
	if version := said.info["redis_version"]; snapshot.Series(version) >= snapshot.Series(m.Server.Version) {
		m.Server.Version = version // the newest version: an older server may be unable to read the file of a newer one
	}
	m.Shards = append(m.Shards, manifest.Shard{Slots: of.master.slots.String(), Keys: said.keys})
	m.Objects = append(m.Objects, stored)
	return nil
}

// because returns errChanged if a change of the cluster is the cause of err: a server aborts a transfer when its master changes.
func (b *backup) because(ctx context.Context, err error) error {
	reason := contract.ReasonOf(err)
	if ctx.Err() != nil || reason != contract.ReasonDumpFailed && reason != contract.ReasonServerUnreachable {
		return err
	}
	if changed, lookErr := b.changed(ctx); lookErr == nil && changed {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// changed reads the cluster again, and reports whether it differs from its state before the first copy.
func (b *backup) changed(ctx context.Context) (bool, error) {
	now, err := b.atRest(ctx)
	if err != nil {
		return false, err
	}
	if !now.isSame(b.layout) {
		return true, nil
	}
	for i, from := range b.sources {
		of := b.layout.shards[i]
		if a, ok := now.answers[from.id]; !ok || !follows(a, of, b.layout.history(of)) {
			return true, nil
		}
	}
	return false, nil
}

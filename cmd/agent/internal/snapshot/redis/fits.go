// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// fits returns the slots of the target's shard. It fails with Refused unless the new cluster and its image can use the data of the backup.
func (t Target) fits(ctx context.Context, b *manifest.Backup) (slots, error) {
	if b.Server.Flavour != Flavour {
		return nil, contract.Errorf(contract.ReasonRefused, "backup %s is of %s, not of redis: give the folder of a RedisCluster's backups", b.ID, b.Server.Flavour)
	}
	if len(b.Shards) != t.Shards {
		return nil, contract.Errorf(contract.ReasonRefused, "backup %s is of a cluster with %d shards, but the new cluster has %d shards: make the new cluster with %d shards, and change their number after the restore",
			b.ID, len(b.Shards), t.Shards, len(b.Shards))
	}
	parts := make([]slots, len(b.Shards))
	for i, shard := range b.Shards {
		var err error
		if parts[i], err = parseSlots(shard.Slots); err != nil {
			return nil, contract.Errorf(contract.ReasonDamaged, "read the manifest of backup %s: %w", b.ID, err)
		}
	}
	err := checkSlots(parts...)
	if err == nil && len(b.Objects) != len(b.Shards) {
		err = fmt.Errorf("it has %d shards and %d objects", len(b.Shards), len(b.Objects))
	}
	if err != nil {
		return nil, contract.Errorf(contract.ReasonDamaged, "the manifest of backup %s is not of a whole cluster: %w", b.ID, err)
	}
	version, err := programVersion(ctx)
	if err != nil {
		return nil, err
	}
	if snapshot.Series(b.Server.Version) > snapshot.Series(version) {
		return nil, contract.Errorf(contract.ReasonRefused, "backup %s is of Redis %s, but the image has Redis %s: use an image of that version, or a newer one", b.ID, b.Server.Version, version)
	}
	return parts[t.Shard], nil
}

// programVersion returns the version of the image's server.
func programVersion(ctx context.Context) (string, error) {
	path, err := server.Find("redis-server")
	if err != nil {
		return "", err
	}
	words, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", contract.Errorf(contract.ReasonFailed, "read the version of program %s: %w", path, err)
	}
	for word := range strings.FieldsSeq(string(words)) { // the output begins with: Redis server v=7.0.15 sha=...
		if version, ok := strings.CutPrefix(word, "v="); ok && snapshot.Series(version) > 0 {
			return version, nil
		}
	}
	return "", contract.Errorf(contract.ReasonFailed, "read the version of %s: the answer is %q", path, words)
}

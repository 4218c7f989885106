// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	redissnapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/redis"
	"d3os.com/d3os-operator/internal/contract"
)

func backupRedis(arguments []string) int {
	c := newConfig("backup redis")
	c.writes()
	var cluster redissnapshot.Cluster
	c.StringVar(&cluster.Server, "server", "", "HOST:PORT that leads to any server of the cluster; the password of all is in AGENT_PASSWORD or in the file AGENT_PASSWORD_FILE")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if _, _, err := net.SplitHostPort(cluster.Server); err != nil {
			return contract.Errorf(contract.ReasonUsage, "--server must be HOST:PORT, such as 'cache:6379': %w", err)
		}
		var err error
		if cluster.Password, err = secret(contract.EnvPassword); err != nil {
			return err
		}
		if cluster.Password == "" {
			return contract.Errorf(contract.ReasonUsage, "AGENT_PASSWORD or AGENT_PASSWORD_FILE is required")
		}
		options, err := c.draft(ctx)
		if err != nil {
			return err
		}
		made, removed, err := redissnapshot.Backup(ctx, cluster, options)
		result.Removed = removed
		if err == nil {
			describe(result, made)
		}
		return err
	})
}

func restoreRedis(arguments []string) int {
	c := newConfig("restore redis")
	id := c.String("backup", "latest", "the backup's ID")
	may := c.birth()
	pod := c.String("pod", os.Getenv("POD_NAME"), "name of this pod, CLUSTER-SHARD-ORDINAL; only ordinal 0 gets data")
	var t redissnapshot.Target
	c.StringVar(&t.Volume, "volume", "", "root of the empty volume")
	c.StringVar(&t.Data, "data", "", "folder of the data within the volume; empty for its root")
	c.IntVar(&t.Shards, "shards", 0, "number of shards of the new cluster. Default: the number in the file shards of --record")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		var ordinal int
		var err error
		if t.Shard, ordinal, err = place(*pod); err != nil {
			return err
		}
		if ordinal != 0 {
			return nil // a replica gets the data of its master
		}
		if ok, err := may(); !ok || err != nil {
			return err
		}
		if t.Shards == 0 {
			t.Shards = c.recordedShards()
		}
		if t.Volume == "" || t.Shards <= 0 {
			return contract.Errorf(contract.ReasonUsage, "--volume and --shards are required")
		}
		if taken, err := t.IsTaken(); err != nil || taken && c.isBirth() {
			return err
		}
		if t.Shard >= t.Shards {
			return contract.Errorf(contract.ReasonUsage, "pod %s belongs to shard %d, but --shards is %d", *pod, t.Shard, t.Shards)
		}
		source, err := c.reads(ctx, *id, nil, false)
		if err != nil {
			return err
		}
		if err := redissnapshot.Restore(ctx, source, t); err != nil {
			return err
		}
		describe(result, source.Backup)
		return nil
	})
}

// recordedShards returns the number of shards in the operator's record; 0 for none.
func (c *config) recordedShards() int {
	text, err := os.ReadFile(filepath.Join(c.Lookup("record").Value.String(), "shards"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 if the text is not a number
	return n
}

// place returns the shard and the ordinal in the name of a pod.
func place(pod string) (shard, ordinal int, err error) {
	words := strings.Split(pod, "-")
	if len(words) >= 3 {
		shard, err = strconv.Atoi(words[len(words)-2])
		if err == nil {
			ordinal, err = strconv.Atoi(words[len(words)-1])
		}
	}
	if len(words) < 3 || err != nil {
		return 0, 0, contract.Errorf(contract.ReasonUsage, "--pod must be CLUSTER-SHARD-ORDINAL, such as 'cache-0-0', not '%s'", pod)
	}
	return shard, ordinal, nil
}

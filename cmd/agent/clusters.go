// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/member/etcd"
	etcdsnapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/etcd"
	"d3os.com/d3os-operator/internal/contract"
)

// clusters maps each kind of cluster to its backup and restore commands.
var clusters map[string]struct{ backup, restore func([]string) int }

func init() {
	clusters = map[string]struct{ backup, restore func([]string) int }{"etcd": {backupEtcd, restoreEtcd}, "mysql": {backupMySQL, restoreMySQL}, "redis": {backupRedis, restoreRedis}}
}

// draft returns the options that backups of all clusters share.
func (c *config) draft(ctx context.Context) (draft.Options, error) {
	recipients, err := c.publicKeys()
	if err != nil {
		return draft.Options{}, err
	}
	to, err := c.open(ctx)
	return draft.Options{Store: to, Recipients: recipients, Keys: c.recipients, Source: c.source, Writer: c.writer, Progress: progress}, err
}

func backupEtcd(arguments []string) int {
	c := newConfig("backup etcd")
	c.writes()
	var cluster etcdsnapshot.Cluster
	c.StringVar(&cluster.Endpoint, "endpoint", "", "URL of the members, such as http://store:2379")
	c.StringVar(&cluster.TLS, "tls", "", "folder with the client's certificate: tls.crt, tls.key, ca.crt")
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if cluster.Endpoint == "" {
			return contract.Errorf(contract.ReasonUsage, "--endpoint is required")
		}
		options, err := c.draft(ctx)
		if err != nil {
			return err
		}
		made, removed, err := etcdsnapshot.Backup(ctx, cluster, options)
		result.Removed = removed
		if err == nil {
			describe(result, made)
		}
		return err
	})
}

// birth adds the flags --birth and --record of a restore. The returned function reports whether this pod may restore. With --birth, it
// returns false if the operator's record shows that the cluster was formed.
func (c *config) birth() func() (bool, error) {
	born := c.Bool("birth", false, "succeed without a restore if the volume has data, or if --record shows that the cluster was formed")
	record := c.String("record", "", "folder with the operator's record, for --birth")
	return func() (bool, error) {
		if !*born || *record == "" {
			return true, nil
		}
		_, err := os.Stat(filepath.Join(*record, "formed"))
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
}

// isBirth reports whether --birth is set. With --birth, a restore to a volume with data succeeds, and changes nothing on the volume.
func (c *config) isBirth() bool { return c.Lookup("birth").Value.String() == "true" }

func restoreEtcd(arguments []string) int {
	c := newConfig("restore etcd")
	id := c.String("backup", "latest", "the backup's ID")
	pod := c.String("pod", "", "name of the one pod whose volume gets the data")
	may := c.birth()
	t := etcdsnapshot.Target{UID: os.Getenv("POD_UID")}
	server := etcd.Server{Pod: os.Getenv("POD_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), UID: t.UID, IP: os.Getenv("POD_IP"), Pods: 1}
	c.StringVar(&t.Volume, "volume", "", "root of the empty volume")
	c.StringVar(&t.Data, "data", "etcd", "folder of the data within the volume")
	c.StringVar(&t.Notes, "notes", "", "folder that is kept as long as the pod exists")
	c.StringVar(&server.Domain, "domain", "", "suffix of the pods' names in DNS")
	c.BoolFunc("peer-tls", "members have certificates for each other", func(string) error {
		server.PeerTLS = "yes"
		return nil
	})
	return c.command(arguments, func(ctx context.Context, result *contract.Result) error {
		if t.Volume == "" || t.Notes == "" {
			return contract.Errorf(contract.ReasonUsage, "--volume and --notes are required")
		}
		if *pod != "" && *pod != server.Pod {
			return nil // another pod begins the cluster
		}
		var err error
		if t.Server, err = etcd.New(server); err != nil {
			return contract.Errorf(contract.ReasonUsage, "%w", err)
		}
		if ok, err := may(); !ok || err != nil {
			return err
		}
		if taken, err := t.IsTaken(); taken || err != nil {
			return err
		}
		if there, err := t.IsRestored(); there || err != nil {
			return err
		}
		source, err := c.reads(ctx, *id, nil, false)
		if err != nil {
			return err
		}
		if err := etcdsnapshot.Restore(ctx, source, t); err != nil {
			return err
		}
		describe(result, source.Backup)
		return nil
	})
}

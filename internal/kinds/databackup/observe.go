// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
)

// World is what is observed of a backup: plain data.
type World struct {
	// Source is the CronJob for the backups of the data; nil where there is none, and Problem says why.
	Source  *agentjob.Source
	Problem string
	// Job is the backup's; nil where there is none.
	Job *agentjob.Job
	// Conflict is whose the Job of that name is, where it is not the backup's.
	Conflict string
}

// Observe looks at the Job of a backup, and at what it is to be made from. A backup that has ended is not looked at.
func (k *Kind) Observe(ctx context.Context, b *backupv1.DataBackup, _ engine.Seen, _ kinds.Pods) (World, error) {
	var w World
	if isFinal(b.Status.Phase) {
		return w, nil
	}
	job, err := k.jobs.Get(ctx, client.ObjectKeyFromObject(b))
	if err != nil {
		return w, err
	}
	if job != nil {
		if !kinds.OwnerOf(k, b).Controls(job) {
			w.Conflict = agentjob.ControllerOf(job)
			return w, nil
		}
		w.Job, err = k.jobs.Follow(ctx, job)
		return w, err
	}
	of, from := b.Spec.Of, sources[b.Spec.Of.Kind]
	if w.Source, err = k.jobs.Source(ctx, agentjob.Of{Kind: from.kind, Namespace: b.Namespace, Name: of.Name}, from.part); w.Source == nil {
		w.Problem = fmt.Sprintf("%s %s of this namespace has no backup of %s: declare %s in it, or correct spec.of",
			of.Kind, of.Name, from.component, from.field)
	}
	return w, err
}

// source is a kind of resource with data.
type source struct {
	kind schema.GroupVersionKind
	// component is what the data is of, field where its backup is declared, and part the value of the labels on its CronJob.
	component, field, part string
}

// sources are the kinds that DataBackup's API knows, by name. Nothing but their names is known of them.
var sources = map[string]source{
	"DataService":  {schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"}, "mysql", "spec.mysql.backup", "mysql"},
	"EtcdCluster":  {schema.GroupVersionKind{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"}, "etcd", "spec.backup", "etcd.cluster"},
	"RedisCluster": {schema.GroupVersionKind{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"}, "redis", "spec.backup", "redis.cluster"},
}

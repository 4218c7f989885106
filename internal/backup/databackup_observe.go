// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// DataBackupObservation is the observation of a backup. It contains only data.
type DataBackupObservation struct {
	// Source is the CronJob for backups of the data. If there is none, Source is nil and Problem contains the reason.
	Source  *Source
	Problem string
	// Job is the Job of the backup; nil if it does not exist.
	Job *Job
	// Conflict names the controller of the Job, if that is not this backup.
	Conflict string
}

// Observe reads the Job and the source of a backup. If the status is final, it reads nothing.
func (k *DataBackups) Observe(ctx context.Context, b *backupv1.DataBackup, _ reconcile.PlanSeen, _ reconcile.Pods, obs *DataBackupObservation) (err error) {
	if isFinalBackup(b.Status.Phase) {
		return nil
	}
	job, err := k.jobs.Get(ctx, client.ObjectKeyFromObject(b))
	if err != nil {
		return err
	}
	if job != nil {
		if !reconcile.OwnerOf(k, b).Controls(job) {
			obs.Conflict = ControllerOf(job)
			return nil
		}
		obs.Job, err = k.jobs.Follow(ctx, job)
		return err
	}
	of, from := b.Spec.Of, sources[b.Spec.Of.Kind]
	data := Of{Kind: from.kind, Namespace: b.Namespace, Name: of.Name}
	if obs.Source, err = k.jobs.Source(ctx, data, from.part); err == nil && obs.Source == nil && of.Kind == "DataService" {
		obs.Source, err = k.jobs.membersSource(ctx, data)
	}
	if obs.Source == nil {
		obs.Problem = fmt.Sprintf("%s %s of this namespace has no backup of %s: declare %s in it, or correct spec.of",
			of.Kind, of.Name, from.component, from.field)
	}
	return err
}

// membersSource returns the CronJob for backups of a DataService's MySQLCluster, or nil.
func (r Reader) membersSource(ctx context.Context, of Of) (*Source, error) {
	members := sources["MySQLCluster"]
	list := object.EmptyList(object.CronJobKind)
	if err := r.Client.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingLabels{object.LabelBackup: members.part}); err != nil {
		return nil, fmt.Errorf("list the CronJobs of MySQLClusters: %w", err)
	}
	for i := range list.Items {
		ref := metav1.GetControllerOfNoCopy(&list.Items[i])
		if ref == nil || ref.Kind != members.kind.Kind {
			continue
		}
		cluster := object.Empty(members.kind)
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: ref.Name}, cluster)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the owner of MySQLCluster %s: %w", ref.Name, err)
		}
		if owner := metav1.GetControllerOfNoCopy(cluster); owner != nil && owner.Kind == of.Kind.Kind && owner.Name == of.Name {
			return r.Source(ctx, Of{Kind: members.kind, Namespace: of.Namespace, Name: ref.Name}, members.part)
		}
	}
	return nil, nil
}

// source describes a kind of resource with data.
type source struct {
	kind schema.GroupVersionKind
	// component is the name of the data, field is the spec field that declares its backups, and part is the value of
	// the label on the CronJob.
	component, field, part string
}

// sources maps the name of a kind that DataBackup supports to its description. This package uses only the names of these kinds.
var sources = map[string]source{
	"DataService":  {schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"}, "mysql", "spec.mysql.backup", "mysql"},
	"EtcdCluster":  {schema.GroupVersionKind{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"}, "etcd", "spec.backup", "etcd.cluster"},
	"MySQLCluster": {schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1alpha1", Kind: "MySQLCluster"}, "mysql", "spec.backup", "mysql.cluster"},
	"RedisCluster": {schema.GroupVersionKind{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"}, "redis", "spec.backup", "redis.cluster"},
}

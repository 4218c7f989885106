// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/reconcile"
)

// DataRestoreObservation is the observation of a restore. It contains only data.
type DataRestoreObservation struct {
	// Source is the CronJob that restores the data; nil if it does not exist.
	Source *Source
	// HasMembers reports whether the database has several members. A DataRestore cannot restore such a database.
	HasMembers bool
	// Model describes the volume to create; nil if its size is unknown.
	Model *Model
	// Claim is the claim with the name that the restore needs; nil if it does not exist. Owned reports whether this
	// restore created the claim.
	Claim *corev1.PersistentVolumeClaim
	Owned bool
	// Taken names an object that already uses the database's name; empty for none.
	Taken string
	// Job is the Job of the restore; nil if it does not exist.
	Job *Job
	// Conflict names the controller of the Job, if that is not this restore.
	Conflict string
}

// Observe reads the Job, the claim and the source of a restore. If the status is final, it reads nothing.
func (k *DataRestores) Observe(ctx context.Context, r *backupv1.DataRestore, _ reconcile.PlanSeen, _ reconcile.Pods, obs *DataRestoreObservation) (err error) {
	if isFinalRestore(r.Status.Phase) {
		return nil
	}
	if obs.Claim, err = k.claim(ctx, r.Namespace, claimName(r)); err != nil {
		return err
	}
	obs.Owned = obs.Claim != nil && obs.Claim.Annotations[annotationRestore] == string(r.UID)
	job, err := k.jobs.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: jobName(r)})
	switch {
	case err != nil:
		return err
	case job != nil && !reconcile.OwnerOf(k, r).Controls(job):
		obs.Conflict = ControllerOf(job)
		return nil
	case job != nil:
		obs.Job, err = k.jobs.Follow(ctx, job)
		return err
	}
	return k.begin(ctx, r, obs)
}

// begin reads the source of a restore, and the model of its volume.
func (k *DataRestores) begin(ctx context.Context, r *backupv1.DataRestore, obs *DataRestoreObservation) (err error) {
	of := Of{Kind: backupv1.GroupVersion.WithKind(r.Spec.Of.Kind), Namespace: r.Namespace, Name: r.Spec.Of.Name}
	if obs.Source, err = k.jobs.Source(ctx, of, r.Spec.Of.Component+"-restore"); err != nil || obs.Owned {
		return err
	}
	if obs.Source == nil {
		members, err := k.jobs.membersSource(ctx, of)
		obs.HasMembers = members != nil
		return err
	}
	if obs.Taken, err = k.taken(ctx, r); err != nil || obs.Taken != "" {
		return err
	}
	own, err := k.claim(ctx, r.Namespace, databaseClaim(&obs.Source.Template))
	obs.Model = modelOf(r, own)
	return err
}

// taken names an object with the database's name that would use the claim, or would keep a server from starting on it.
// It reads from the API server, because such an object may belong to any owner.
func (k *DataRestores) taken(ctx context.Context, r *backupv1.DataRestore) (string, error) {
	name := r.Spec.DatabaseName
	if name == "" {
		return "", nil
	}
	for _, c := range []struct {
		kind, name string
		object     client.Object
	}{
		{"StatefulSet", name, &appsv1.StatefulSet{}}, {"Deployment", name, &appsv1.Deployment{}}, {"ConfigMap", name + "-data", &corev1.ConfigMap{}},
	} {
		err := k.live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: c.name}, c.object)
		if err == nil {
			return c.kind + " " + c.name, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("check whether %s %s exists: %w", c.kind, c.name, err)
		}
	}
	return "", nil
}

// claim reads a claim of any owner from the API server. It returns nil if the claim does not exist.
func (k *DataRestores) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	if name == "" {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := k.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", name, err)
	}
	return claim, nil
}

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

// DataRestoreWorld is the observation of a restore, as plain data.
type DataRestoreWorld struct {
	// Source is the CronJob that restores the data; nil for none.
	Source *Source
	// HasMembers reports whether the data is that of several members, which are restored in another way.
	HasMembers bool
	// Model describes the wanted volume; nil if its size is unknown.
	Model *Model
	// Claim is the claim with the restore's claim name; nil for none. Owned reports whether the restore created it.
	Claim *corev1.PersistentVolumeClaim
	Owned bool
	// Taken names an object that already has the name of the future database, or is empty.
	Taken string
	// Job is the restore's; nil for none.
	Job *Job
	// Conflict names the controller of the Job if it is not the restore.
	Conflict string
}

// Observe reads the Job of a restore, its claim, and its source. It reads nothing for a final restore.
func (k *DataRestores) Observe(ctx context.Context, r *backupv1.DataRestore, _ reconcile.PlanSeen, _ reconcile.Pods) (DataRestoreWorld, error) {
	var w DataRestoreWorld
	if isFinalRestore(r.Status.Phase) {
		return w, nil
	}
	var err error
	if w.Claim, err = k.claim(ctx, r.Namespace, claimName(r)); err != nil {
		return w, err
	}
	w.Owned = w.Claim != nil && w.Claim.Annotations[annotationRestore] == string(r.UID)
	job, err := k.jobs.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: jobName(r)})
	switch {
	case err != nil:
		return w, err
	case job != nil && !reconcile.OwnerOf(k, r).Controls(job):
		w.Conflict = ControllerOf(job)
		return w, nil
	case job != nil:
		w.Job, err = k.jobs.Follow(ctx, job)
		return w, err
	}
	return w, k.begin(ctx, r, &w)
}

// begin reads the source of a restore, and the model of its volume.
func (k *DataRestores) begin(ctx context.Context, r *backupv1.DataRestore, w *DataRestoreWorld) (err error) {
	of := Of{Kind: backupv1.GroupVersion.WithKind(r.Spec.Of.Kind), Namespace: r.Namespace, Name: r.Spec.Of.Name}
	if w.Source, err = k.jobs.Source(ctx, of, r.Spec.Of.Component+"-restore"); err != nil || w.Owned {
		return err
	}
	if w.Source == nil {
		members, err := k.jobs.membersSource(ctx, of)
		w.HasMembers = members != nil
		return err
	}
	if w.Taken, err = k.taken(ctx, r); err != nil || w.Taken != "" {
		return err
	}
	own, err := k.claim(ctx, r.Namespace, databaseClaim(&w.Source.Template))
	w.Model = modelOf(r, own)
	return err
}

// taken names an object with the future database's name that would use its claim, or keep a server from starting on it. It reads from the
// API server, because the object may have any owner.
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
			return "", fmt.Errorf("look whether there is %s %s: %w", c.kind, c.name, err)
		}
	}
	return "", nil
}

// claim reads a claim of any owner from the API server, or returns nil.
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
		return nil, fmt.Errorf("look at claim %s: %w", name, err)
	}
	return claim, nil
}

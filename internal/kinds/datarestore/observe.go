// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datarestore

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
)

// World is what is observed of a restore: plain data.
type World struct {
	// Source is the CronJob that restores the data; nil where there is none.
	Source *agentjob.Source
	// Model is what the volume is to be like; nil where its size is not known.
	Model *Model
	// Claim is the one with the name of the restore's, nil for none; Owned reports whether the restore made it.
	Claim *corev1.PersistentVolumeClaim
	Owned bool
	// Taken is what has the name that the database is to get; empty for nothing.
	Taken string
	// Job is the restore's; nil where there is none.
	Job *agentjob.Job
	// Conflict is whose the Job of that name is, where it is not the restore's.
	Conflict string
}

// Observe looks at the Job of a restore, its claim, and at what it is to be made from. A restore that has ended is not looked at.
func (k *Kind) Observe(ctx context.Context, r *backupv1.DataRestore, _ engine.Seen, _ kinds.Pods) (World, error) {
	var w World
	if isFinal(r.Status.Phase) {
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
	case job != nil && !kinds.OwnerOf(k, r).Controls(job):
		w.Conflict = agentjob.ControllerOf(job)
		return w, nil
	case job != nil:
		w.Job, err = k.jobs.Follow(ctx, job)
		return w, err
	}
	return w, k.begin(ctx, r, &w)
}

// begin reads what a restore is to be made from.
func (k *Kind) begin(ctx context.Context, r *backupv1.DataRestore, w *World) (err error) {
	of := agentjob.Of{Kind: backupv1.GroupVersion.WithKind(r.Spec.Of.Kind), Namespace: r.Namespace, Name: r.Spec.Of.Name}
	if w.Source, err = k.jobs.Source(ctx, of, r.Spec.Of.Component+"-restore"); err != nil || w.Source == nil || w.Owned {
		return err
	}
	if w.Taken, err = k.taken(ctx, r); err != nil || w.Taken != "" {
		return err
	}
	own, err := k.claim(ctx, r.Namespace, databaseClaim(&w.Source.Template))
	w.Model = modelOf(r, own)
	return err
}

// taken returns what has the name that the database is to get, of that which would use its claim or keep a server from
// starting on it: it is asked of the API server, because it may be anybody's.
func (k *Kind) taken(ctx context.Context, r *backupv1.DataRestore) (string, error) {
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

// claim asks the API server for a claim, whoever's it is. It returns nil for none.
func (k *Kind) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
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

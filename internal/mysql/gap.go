// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Steps that create a backup: after a gap in the binary log, and after a single server has become several members.
const (
	stepBackUp      = "BackUpAfterGap"
	stepFirstBackup = "BackUpFirst"
)

// JobAfterGap returns the Job that creates a backup after a gap in the binary log. Without a backup after the gap, no
// later point in time can be restored. Each gap has one Job: JobAfterGap returns nil if the Job exists, or if there is no
// gap. The condition BackupHealthy reports the result. If the Job fails, the next scheduled backup serves the same
// purpose.
func JobAfterGap(ctx context.Context, c client.Client, of backup.Of, component string, gap *metav1.Time) (*batchv1.Job, error) {
	if gap == nil {
		return nil, nil
	}
	return jobOnce(ctx, c, of, component, fmt.Sprintf("%d", gap.Unix()))
}

// FirstJob returns the Job that creates the first backup after a single server has become several members, because the archive of members
// does not continue the server's backups. It returns nil if the Job exists.
func FirstJob(ctx context.Context, c client.Client, of backup.Of, component string) (*batchv1.Job, error) {
	return jobOnce(ctx, c, of, component, "first")
}

// jobOnce returns the Job that creates a backup, with a suffix in its name. It returns nil if the Job exists.
func jobOnce(ctx context.Context, c client.Client, of backup.Of, component, suffix string) (*batchv1.Job, error) {
	source, err := backup.Reader{Client: c}.Source(ctx, of, component)
	if source == nil || err != nil {
		return nil, err
	}
	job := source.Job(source.Name+"-"+suffix, of.Namespace)
	err = c.Get(ctx, client.ObjectKeyFromObject(job), object.Empty(object.JobKind))
	switch {
	case apierrors.IsNotFound(err):
		return job, nil
	case err != nil:
		return nil, fmt.Errorf("read Job %s: %w", job.Name, err)
	}
	return nil, nil
}

// BackUp returns the step that creates a Job after a gap. If the Job exists, an earlier pass created it and the cache does not show it yet.
func BackUp(c client.Client, job *batchv1.Job) reconcile.Step {
	return makeJob(c, job, stepBackUp, "the binary log has a gap, and points in time after the gap can be restored only after the next backup")
}

// BackUpFirst returns the step that creates the first backup of members that were a single server.
func BackUpFirst(c client.Client, job *batchv1.Job) reconcile.Step {
	return makeJob(c, job, stepFirstBackup, "the members have no backup yet, and their archive does not continue the backups of the single server")
}

func makeJob(c client.Client, job *batchv1.Job, name, why string) reconcile.Step {
	return reconcile.Step{
		Name: name, Message: "make Job " + job.Name + ": " + why,
		Do: func(ctx context.Context) error {
			if err := c.Create(ctx, job.DeepCopy(), client.FieldOwner(apply.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("make Job %s: %w", job.Name, err)
			}
			return nil
		},
	}
}

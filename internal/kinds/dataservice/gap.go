// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/object"
)

// stepBackUp makes a backup where the binary log has a gap.
const stepBackUp = "BackUpAfterGap"

// jobAfterGap returns the Job that makes a backup after a gap, since when nothing can be restored to any moment; nil where there
// is no gap, or that Job is there already. One Job is made for a gap. What becomes of it the condition BackupHealthy says; if it
// fails, the schedule's next one comes.
func (k *Kind) jobAfterGap(ctx context.Context, ds *dsv1.DataService, gap *metav1.Time) (*batchv1.Job, error) {
	if gap == nil {
		return nil, nil
	}
	of := agentjob.Of{Kind: k.GVK(), Namespace: ds.Namespace, Name: ds.Name}
	source, err := agentjob.Reader{Client: k.client}.Source(ctx, of, string(component.MySQL))
	if source == nil || err != nil {
		return nil, err
	}
	job := source.Job(fmt.Sprintf("%s-%d", source.Name, gap.Unix()), ds.Namespace)
	err = k.client.Get(ctx, client.ObjectKeyFromObject(job), object.Empty(object.JobKind))
	switch {
	case apierrors.IsNotFound(err):
		return job, nil
	case err != nil:
		return nil, fmt.Errorf("look at Job %s: %w", job.Name, err)
	}
	return nil, nil
}

// backUp is the step that makes a Job. One that is there already was made by a pass that the cache does not show yet.
func (k *Kind) backUp(job *batchv1.Job) day2.Step {
	return day2.Step{
		Name: stepBackUp, Message: "make Job " + job.Name + ": the binary log has a gap, and moments after it can be restored from the next backup on",
		Do: func(ctx context.Context) error {
			if err := k.client.Create(ctx, job.DeepCopy(), client.FieldOwner(apply.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("make Job %s: %w", job.Name, err)
			}
			return nil
		},
	}
}

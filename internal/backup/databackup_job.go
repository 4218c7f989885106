// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
)

// backupJob returns the Job of a backup. It is made from the source's CronJob, and has the backup's name. Its pods have
// the labels from the source's chart, so that the source's NetworkPolicy admits them.
func backupJob(b *backupv1.DataBackup, owner object.Owner, source *Source) *batchv1.Job {
	job := source.Job(b.Name, b.Namespace)
	job.Labels = owner.Labels(sources[b.Spec.Of.Kind].component)
	job.Labels[object.LabelPartOf] = "dataservice"
	job.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
	return job
}

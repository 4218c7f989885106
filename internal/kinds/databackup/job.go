// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// jobOf returns the Job of a backup: what the CronJob of the source makes, under the backup's name. Its pods have the
// labels that the source's chart gives them, by which its NetworkPolicy lets them in.
func jobOf(b *backupv1.DataBackup, owner object.Owner, source *agentjob.Source) *batchv1.Job {
	job := source.Job(b.Name, b.Namespace)
	job.Labels = owner.Labels(sources[b.Spec.Of.Kind].component)
	job.Labels[object.LabelPartOf] = "dataservice"
	job.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
	return job
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// jobOf returns the Job of a backup: what the CronJob of the source makes, under the backup's name. Its pods have the
// labels that the source's chart gives them, by which its NetworkPolicy lets them in.
func jobOf(b *backupv1.DataBackup, owner object.Owner, source *agentjob.Source) *batchv1.Job {
	template := source.Template.DeepCopy()
	labels := maps.Clone(owner.Labels(sources[b.Spec.Of.Kind].component))
	labels[object.LabelPartOf] = "dataservice"
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: object.JobKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Name, Namespace: b.Namespace, Labels: labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner.Reference()},
		},
		Spec: template.Spec,
	}
}

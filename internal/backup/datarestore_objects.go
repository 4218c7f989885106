// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
)

// annotationRestore on a claim is the UID of the DataRestore that created the claim and writes its data.
const annotationRestore = "d3os-product.com.d3os/restore"

// Names in the template of a restore, from the chart.
const (
	volumeData      = "data"
	volumePasswords = "root"
	volumeIdentity  = "identity"
	folderIdentity  = "/d3os-backup/identity"
	folderStages    = "/tmp"
	envIdentities   = contract.EnvIdentities + contract.InFile
)

func jobName(r *backupv1.DataRestore) string { return r.Name + "-restore" }

// claimName returns the name of the claim to which a backup is restored: the claim of the database that
// spec.databaseName names or, for a rehearsal, a separate claim.
func claimName(r *backupv1.DataRestore) string {
	if name := r.Spec.DatabaseName; name != "" {
		return "data-" + name + "-0"
	}
	return r.Name + "-restore"
}

// claimOf returns the claim of a restore. The claim of a rehearsal is deleted with the DataRestore. Any other claim has
// the labels of a database's claim, so that the DataService finds it after the switch to that database. Only a user
// deletes such a claim.
func claimOf(r *backupv1.DataRestore, owner object.Owner, model *Model, source *Source) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: object.ClaimKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: claimName(r), Namespace: r.Namespace, Annotations: map[string]string{annotationRestore: string(r.UID)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      model.AccessModes,
			StorageClassName: model.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: model.Size}},
		},
	}
	if r.Spec.DatabaseName == "" {
		// The owner reference has no controller: otherwise the operator would prune the claim, because it prunes
		// controlled objects that are not planned.
		reference := owner.Reference()
		reference.Controller, reference.BlockOwnerDeletion = nil, nil
		claim.Labels, claim.OwnerReferences = owner.Labels(r.Spec.Of.Component), []metav1.OwnerReference{reference}
		return claim
	}
	of := object.Owner{GroupVersionKind: backupv1.GroupVersion.WithKind(r.Spec.Of.Kind), Namespace: r.Namespace, Name: r.Spec.Of.Name}
	claim.Labels = maps.Clone(of.Labels(r.Spec.Of.Component))
	claim.Labels[object.LabelPartOf] = "dataservice"
	claim.Annotations[object.AnnotationPolicy] = object.PolicyKeep
	if secret := passwords(&source.Template); secret != "" {
		claim.Annotations[object.AnnotationCredentials] = secret
	}
	claim.Annotations = object.WithoutPrune(claim.Annotations, nil)
	return claim
}

// passwords returns the name of the Secret with the passwords of the restored database, or "".
func passwords(template *batchv1.JobTemplateSpec) string {
	for _, v := range template.Spec.Template.Spec.Volumes {
		if v.Name == volumePasswords && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// Model describes the volume to create for a restore.
type Model struct {
	AccessModes      []corev1.PersistentVolumeAccessMode
	StorageClassName *string
	Size             resource.Quantity
}

// modelOf returns the model of a restore's volume. The spec of the restore takes precedence over the database's claim
// (own, may be nil). modelOf returns nil if neither specifies a size.
func modelOf(r *backupv1.DataRestore, own *corev1.PersistentVolumeClaim) *Model {
	m := &Model{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	if own != nil {
		m.Size, m.StorageClassName = own.Spec.Resources.Requests[corev1.ResourceStorage], own.Spec.StorageClassName
		if len(own.Spec.AccessModes) > 0 {
			m.AccessModes = own.Spec.AccessModes
		}
	}
	if s := r.Spec.Storage; s != nil {
		if s.Size != nil {
			m.Size = *s.Size
		}
		if s.StorageClassName != "" {
			m.StorageClassName = ptr.To(s.StorageClassName)
		}
		if s.AccessMode != "" {
			m.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(s.AccessMode)}
		}
	}
	if m.Size.IsZero() {
		return nil
	}
	return m
}

// databaseClaim returns the name of the database's claim in the template, or "".
func databaseClaim(template *batchv1.JobTemplateSpec) string {
	for _, v := range template.Spec.Template.Spec.Volumes {
		if v.Name == volumeData && v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// restoreJob returns the Job of a restore. It is made from the source's CronJob, with another claim, backup and time.
// An init container first checks whether the restore can succeed. Two probes of the working container show the stages
// of the restore.
func restoreJob(r *backupv1.DataRestore, owner object.Owner, source *Source) *batchv1.Job {
	template := source.Template.DeepCopy()
	labels := maps.Clone(owner.Labels(r.Spec.Of.Component))
	labels[object.LabelPartOf] = "dataservice"
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: object.JobKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: jobName(r), Namespace: r.Namespace, Labels: labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner.Reference()},
		},
		Spec: template.Spec,
	}
	pod := &job.Spec.Template.Spec
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Name == volumeData && v.PersistentVolumeClaim != nil {
			v.PersistentVolumeClaim.ClaimName = claimName(r)
		}
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Name != Container {
			continue
		}
		identity(r, pod, c)
		if r.Spec.Image != "" {
			c.Image = r.Spec.Image
		}
		c.Command = command(r, c.Command)
		validate := c.DeepCopy()
		validate.Name, validate.Command = ContainerValidate, append(validate.Command, "--validate")
		validate.VolumeMounts = slices.DeleteFunc(validate.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volumeData })
		pod.InitContainers = append(pod.InitContainers, *validate)
		c.Command = append(c.Command, "--stages="+folderStages)
		c.StartupProbe, c.ReadinessProbe = reached(contract.StageReplay), reached(contract.StageCheck)
	}
	failAtOnce(&job.Spec)
	return job
}

// command returns the agent's command, with the backup and the point in time of a restore.
func command(r *backupv1.DataRestore, from []string) []string {
	to := slices.DeleteFunc(slices.Clone(from), func(arg string) bool {
		return strings.HasPrefix(arg, "--backup=") || strings.HasPrefix(arg, "--to-time=") || strings.HasPrefix(arg, "--to-position=")
	})
	id := r.Spec.Backup
	if id == "" {
		id = "latest"
	}
	to = append(to, "--backup="+id)
	if r.Spec.ToTime != "" {
		to = append(to, "--to-time="+r.Spec.ToTime)
	}
	if r.Spec.ToPosition != "" {
		to = append(to, "--to-position="+r.Spec.ToPosition)
	}
	return to
}

// identity mounts the private key into a container. The Secret is optional, so that the agent can start and report a missing key.
func identity(r *backupv1.DataRestore, pod *corev1.PodSpec, c *corev1.Container) {
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volumeIdentity && v.Secret != nil })
	if i < 0 {
		if r.Spec.IdentitySecret == nil {
			return
		}
		i = len(pod.Volumes)
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumeIdentity, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{DefaultMode: ptr.To[int32](0o440)},
		}})
		c.Env = append(c.Env, corev1.EnvVar{Name: envIdentities, Value: folderIdentity + "/identities"})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeIdentity, MountPath: folderIdentity, ReadOnly: true})
	}
	secret := pod.Volumes[i].Secret
	secret.Optional = ptr.To(true)
	if r.Spec.IdentitySecret != nil {
		secret.SecretName = r.Spec.IdentitySecret.Name
	}
}

// reached returns a probe that succeeds once the agent has created the file of a stage. It never fails often enough to
// restart the container.
func reached(stage string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", folderStages + "/" + stage}}},
		PeriodSeconds: 5, TimeoutSeconds: 5, FailureThreshold: 1 << 30,
	}
}

// failAtOnce makes a Job fail at its first pod if the validating container exits with the code of an error that only
// a user can repair. The rule is a copy of the template's rule for the working container.
func failAtOnce(job *batchv1.JobSpec) {
	if job.PodFailurePolicy == nil {
		return
	}
	rules := job.PodFailurePolicy.Rules
	for i := range rules {
		if codes := rules[i].OnExitCodes; codes != nil && codes.ContainerName != nil && *codes.ContainerName == Container {
			same := *rules[i].DeepCopy()
			same.OnExitCodes.ContainerName = ptr.To(ContainerValidate)
			job.PodFailurePolicy.Rules = slices.Insert(rules, i, same)
			return
		}
	}
}

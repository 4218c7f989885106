// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datarestore

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
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// annotationRestore on a claim is the UID of the DataRestore that made it: what is on it is that restore's.
const annotationRestore = "d3os-product.com.d3os/restore"

// What the template of a restore has, by the names that the chart gives.
const (
	volumeData      = "data"
	volumePasswords = "root"
	volumeIdentity  = "identity"
	folderIdentity  = "/d3os-backup/identity"
	folderStages    = "/tmp"
	envIdentities   = "AGENT_IDENTITIES_FILE"
)

// The files that the agent makes when it comes to a stage (package contract of cmd/agent).
const (
	stageReplay = "replaying"
	stageCheck  = "checking"
)

func jobName(r *backupv1.DataRestore) string { return r.Name + "-restore" }

// claimName is the name of the claim to restore to: the one that a database of databaseName uses, or the rehearsal's own.
func claimName(r *backupv1.DataRestore) string {
	if name := r.Spec.DatabaseName; name != "" {
		return "data-" + name + "-0"
	}
	return r.Name + "-restore"
}

// claimOf returns the claim of a restore. That of a rehearsal goes with it. Every other one has the labels of the database's
// claims, by which the DataService knows it after the switch, and nobody deletes it but a person.
func claimOf(r *backupv1.DataRestore, owner object.Owner, model *Model, source *agentjob.Source) *corev1.PersistentVolumeClaim {
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
		// An owner that is not its controller: what a resource controls and does not plan, the operator removes.
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

// passwords is the name of the Secret whose passwords the restored database gets, "" for none.
func passwords(template *batchv1.JobTemplateSpec) string {
	for _, v := range template.Spec.Template.Spec.Volumes {
		if v.Name == volumePasswords && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// Model is what a restore's volume is like.
type Model struct {
	AccessModes      []corev1.PersistentVolumeAccessMode
	StorageClassName *string
	Size             resource.Quantity
}

// modelOf returns what the volume of a restore is like: what its spec says, else as the database's own claim, nil for none. It
// is nil where no size is known.
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

// databaseClaim is the name of the claim that the template restores to: the database's own, "" for none.
func databaseClaim(template *batchv1.JobTemplateSpec) string {
	for _, v := range template.Spec.Template.Spec.Volumes {
		if v.Name == volumeData && v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// jobOf returns the Job of a restore: what the CronJob of the source makes, with another claim, backup and moment. Before it
// begins, a container looks whether it can succeed; two probes tell of its stages.
func jobOf(r *backupv1.DataRestore, owner object.Owner, source *agentjob.Source) *batchv1.Job {
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
		if c.Name != agentjob.Container {
			continue
		}
		identity(r, pod, c)
		if r.Spec.Image != "" {
			c.Image = r.Spec.Image
		}
		c.Command = command(r, c.Command)
		validate := c.DeepCopy()
		validate.Name, validate.Command = agentjob.ContainerValidate, append(validate.Command, "--validate")
		validate.VolumeMounts = slices.DeleteFunc(validate.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volumeData })
		pod.InitContainers = append(pod.InitContainers, *validate)
		c.Command = append(c.Command, "--stages="+folderStages)
		c.StartupProbe, c.ReadinessProbe = reached(stageReplay), reached(stageCheck)
	}
	failAtOnce(&job.Spec)
	return job
}

// command returns the agent's command with the backup and the moment of a restore.
func command(r *backupv1.DataRestore, from []string) []string {
	to := slices.DeleteFunc(slices.Clone(from), func(arg string) bool {
		return strings.HasPrefix(arg, "--backup=") || strings.HasPrefix(arg, "--to-time=")
	})
	id := r.Spec.Backup
	if id == "" {
		id = "latest"
	}
	to = append(to, "--backup="+id)
	if r.Spec.ToTime != "" {
		to = append(to, "--to-time="+r.Spec.ToTime)
	}
	return to
}

// identity gives a container the private key. The Secret may be missing: the agent says better what is wrong than a pod that
// does not start.
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

// reached is a probe that succeeds when the agent has come to a stage. It never ends a container.
func reached(stage string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", folderStages + "/" + stage}}},
		PeriodSeconds: 5, TimeoutSeconds: 5, FailureThreshold: 1 << 30,
	}
}

// failAtOnce has a Job end where the container that looks before ends with a code for what a person has to mend, as the template
// says of the container that does the work.
func failAtOnce(job *batchv1.JobSpec) {
	if job.PodFailurePolicy == nil {
		return
	}
	rules := job.PodFailurePolicy.Rules
	for i := range rules {
		if codes := rules[i].OnExitCodes; codes != nil && codes.ContainerName != nil && *codes.ContainerName == agentjob.Container {
			same := *rules[i].DeepCopy()
			same.OnExitCodes.ContainerName = ptr.To(agentjob.ContainerValidate)
			job.PodFailurePolicy.Rules = slices.Insert(rules, i, same)
			return
		}
	}
}

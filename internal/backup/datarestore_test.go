// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

func restoreOf(change func(*backupv1.DataRestore)) *backupv1.DataRestore {
	r := &backupv1.DataRestore{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "back", UID: "r"}}
	r.Spec.Of = backupv1.Source{Kind: "DataService", Name: "platform", Component: "mysql"}
	if change != nil {
		change(r)
	}
	return r
}

// template returns a CronJob with the fields of the chart's CronJob that a restore uses.
func template() *Source {
	s := &Source{Name: "db-restore"}
	s.Template.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: ptr.To("backup")}},
	}}
	s.Template.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "agent"}},
		Containers: []corev1.Container{{
			Name: "backup", Image: "mysql:5.7", Command: []string{"/agent", "restore", "--backup=latest", "--volume=/v", "--to-time=latest"},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/v"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}}},
	}
	return s
}

func claimWith(uid string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "back-restore", UID: "c", Annotations: map[string]string{annotationRestore: uid}}}
}

// Each observation determines the phase of the restore, and the object to create, if any.
func TestVerdictsOfRestores(t *testing.T) {
	t.Parallel()
	good, bad := &contract.Result{OK: true, ID: "20260102T150405Z-0a1b2c3d"}, &contract.Result{Reason: "WrongKey", Message: "another key"}
	model := &Model{Size: resource.MustParse("1Gi")}
	own := claimWith("r")
	for name, c := range map[string]struct {
		job, claim string // Job and claim in the status
		began      string // UID in the annotation
		observed   DataRestoreObservation
		phase      backupv1.Phase
		reason     string
		makes      []string
	}{
		"no source":                    {observed: DataRestoreObservation{}, phase: backupv1.PhasePending, reason: backupv1.ReasonSourceNotFound},
		"several members":              {observed: DataRestoreObservation{HasMembers: true}, phase: backupv1.PhasePending, reason: backupv1.ReasonSourceNotFound},
		"the name is taken":            {observed: DataRestoreObservation{Source: template(), Model: model, Taken: "StatefulSet x"}, phase: backupv1.PhasePending, reason: backupv1.ReasonNameInUse},
		"a copy, no status":            {began: "other", observed: DataRestoreObservation{Source: template(), Model: model}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"a copy, the original's claim": {began: "other", observed: DataRestoreObservation{Source: template(), Model: model, Claim: claimWith("other")}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"started, without a claim":     {began: "r", observed: DataRestoreObservation{Source: template(), Model: model}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: []string{StepCreateClaim, StepCreateJob}},
		"no size":                      {observed: DataRestoreObservation{Source: template()}, phase: backupv1.PhasePending, reason: backupv1.ReasonSizeUnknown},
		"a claim of another restore":   {observed: DataRestoreObservation{Source: template(), Model: model, Claim: claimWith("other")}, phase: backupv1.PhasePending, reason: backupv1.ReasonVolumeConflict},
		"a Job of another controller":  {observed: DataRestoreObservation{Conflict: "CronJob a"}, phase: backupv1.PhasePending, reason: backupv1.ReasonJobConflict},
		"nothing was created":          {observed: DataRestoreObservation{Source: template(), Model: model}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: []string{StepCreateClaim, StepCreateJob}},
		"the claim was created":        {claim: "c", observed: DataRestoreObservation{Source: template(), Claim: own, Owned: true}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: []string{StepCreateJob}},
		"the claim was deleted":        {claim: "c", observed: DataRestoreObservation{Source: template(), Model: model}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonVolumeDeleted},
		"the claim was replaced": {claim: "other", observed: DataRestoreObservation{Source: template(), Claim: own, Owned: true, Job: &Job{UID: "1", Done: true, Succeeded: true, Result: good}},
			phase: backupv1.PhaseFailed, reason: backupv1.ReasonVolumeDeleted},
		"validating":                       {observed: DataRestoreObservation{Job: &Job{UID: "1"}}, phase: backupv1.PhaseValidating, reason: backupv1.ReasonRunning},
		"does not start":                   {observed: DataRestoreObservation{Job: &Job{UID: "1", Waiting: "ImagePullBackOff"}}, phase: backupv1.PhaseValidating, reason: backupv1.ReasonPodNotStarting},
		"suspended":                        {observed: DataRestoreObservation{Job: &Job{UID: "1", IsSuspended: true, Stuck: "it is suspended"}}, phase: backupv1.PhaseValidating, reason: backupv1.ReasonJobSuspended},
		"its pod is refused":               {observed: DataRestoreObservation{Job: &Job{UID: "1", Stuck: "exceeded quota"}}, phase: backupv1.PhaseValidating, reason: backupv1.ReasonPodNotStarting},
		"succeeded, and a sidecar runs on": {observed: DataRestoreObservation{Job: &Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: good}}, phase: backupv1.PhasePrepared, reason: backupv1.ReasonPrepared},
		"failed, and a sidecar runs on":    {observed: DataRestoreObservation{Job: &Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: bad, Exit: 43}}, phase: backupv1.PhaseFailed, reason: "WrongKey"},
		"building":                         {observed: DataRestoreObservation{Job: &Job{UID: "1", IsAtWork: true}}, phase: backupv1.PhaseBuilding, reason: backupv1.ReasonRunning},
		"building again":                   {observed: DataRestoreObservation{Job: &Job{UID: "1", IsAtWork: true, Result: bad}}, phase: backupv1.PhaseBuilding, reason: backupv1.ReasonRunning},
		"replaying":                        {observed: DataRestoreObservation{Job: &Job{UID: "1", IsAtWork: true, IsStarted: true}}, phase: backupv1.PhaseReplaying, reason: backupv1.ReasonRunning},
		"checking":                         {observed: DataRestoreObservation{Job: &Job{UID: "1", IsAtWork: true, IsStarted: true, IsReady: true}}, phase: backupv1.PhaseChecking, reason: backupv1.ReasonRunning},
		"prepared":                         {claim: "c", observed: DataRestoreObservation{Claim: own, Owned: true, Job: &Job{UID: "1", Done: true, Succeeded: true, Result: good}}, phase: backupv1.PhasePrepared, reason: backupv1.ReasonPrepared},
		"succeeded, no report":             {observed: DataRestoreObservation{Job: &Job{UID: "1", Done: true, Succeeded: true}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonResultLost},
		"failed":                           {observed: DataRestoreObservation{Job: &Job{UID: "1", Done: true, Result: bad}}, phase: backupv1.PhaseFailed, reason: "WrongKey"},
		"failed, no report":                {observed: DataRestoreObservation{Job: &Job{UID: "1", Done: true, Reason: "DeadlineExceeded"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobFailed},
		"the Job was deleted":              {job: "1", observed: DataRestoreObservation{Source: template(), Model: model}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &DataRestores{}
			r := restoreOf(func(r *backupv1.DataRestore) { r.Status.Job, r.Status.ClaimUID = c.job, c.claim })
			if c.began != "" {
				r.Annotations = map[string]string{object.AnnotationStarted: c.began}
			}
			decided := k.Decide(r, reconcile.PlanSeen{}, &c.observed)
			var makes []string
			for _, step := range decided.Steps {
				makes = append(makes, step.Name)
			}
			assert.DeepEqual(t, makes, c.makes)
			k.Status(r, reconcile.Seen[DataRestoreObservation]{Generation: 1, Observed: &c.observed}, metav1.Now())
			assert.Equal(t, r.Status.Phase, c.phase)
			assert.Equal(t, r.Status.Reason, c.reason)
			assert.Assert(t, r.Status.Message != "")
			final := c.phase == backupv1.PhasePrepared || c.phase == backupv1.PhaseFailed
			assert.Equal(t, final, r.Status.CompletedAt != nil)
			assert.Equal(t, decided.LookAgain == 0, final)
			assert.Equal(t, meta.IsStatusConditionTrue(r.Status.Conditions, backupv1.ConditionReady), c.phase == backupv1.PhasePrepared)
			before := r.DeepCopy()
			k.Status(r, reconcile.Seen[DataRestoreObservation]{Generation: 1, Observed: &c.observed}, metav1.NewTime(time.Now().Add(time.Hour)))
			assert.DeepEqual(t, r, before)
		})
	}
}

// The Job restores the wanted backup, up to the wanted point in time, to the restore's claim. The name of the
// database's claim occurs nowhere in the Job.
func TestJob(t *testing.T) {
	t.Parallel()
	r := restoreOf(func(r *backupv1.DataRestore) {
		r.Spec.Backup, r.Spec.ToTime, r.Spec.Image = "20260102T150405Z-0a1b2c3d", "2026-01-02T15:30:00Z", "mysql:8.0"
		r.Spec.DatabaseName, r.Spec.IdentitySecret = "other", &backupv1.SecretName{Name: "key"}
	})
	owner := reconcile.OwnerOf(&DataRestores{}, r)
	source := template()
	job := restoreJob(r, owner, source)
	assert.DeepEqual(t, source, template())
	pod := job.Spec.Template.Spec
	assert.Equal(t, pod.Volumes[0].PersistentVolumeClaim.ClaimName, "data-other-0")
	assert.Equal(t, pod.Volumes[1].Secret.SecretName, "key")
	assert.Assert(t, *pod.Volumes[1].Secret.Optional)
	work, validate := pod.Containers[0], pod.InitContainers[1]
	arguments := []string{"/agent", "restore", "--volume=/v", "--backup=20260102T150405Z-0a1b2c3d", "--to-time=2026-01-02T15:30:00Z"}
	assert.DeepEqual(t, work.Command, append(slices.Clone(arguments), "--stages=/tmp"))
	assert.DeepEqual(t, validate.Command, append(slices.Clone(arguments), "--validate"))
	r.Spec.ToTime, r.Spec.ToPosition = "", "binlog.000002:1234"
	assert.DeepEqual(t, command(r, work.Command), []string{"/agent", "restore", "--volume=/v", "--stages=/tmp", "--backup=20260102T150405Z-0a1b2c3d", "--to-position=binlog.000002:1234"})
	assert.Equal(t, work.Image+validate.Image, "mysql:8.0mysql:8.0")
	assert.Assert(t, !slices.ContainsFunc(validate.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "data" }))
	assert.Assert(t, validate.StartupProbe == nil && work.StartupProbe != nil && work.ReadinessProbe != nil)
	assert.Equal(t, len(job.Spec.PodFailurePolicy.Rules), 2)
	assert.Equal(t, *job.Spec.PodFailurePolicy.Rules[0].OnExitCodes.ContainerName, "validate")
	assert.Assert(t, metav1.IsControlledBy(job, r))

	plain := restoreJob(restoreOf(nil), owner, template()).Spec.Template.Spec
	assert.DeepEqual(t, plain.Containers[0].Command, []string{"/agent", "restore", "--volume=/v", "--backup=latest", "--stages=/tmp"})
	assert.Equal(t, plain.Volumes[0].PersistentVolumeClaim.ClaimName, "back-restore")
}

// The claim of a rehearsal is deleted with the DataRestore; only a user deletes any other claim. No claim has a
// controller, because the operator prunes controlled objects that are not planned.
func TestClaim(t *testing.T) {
	t.Parallel()
	fast := "fast"
	own := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, StorageClassName: &fast,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
	}}
	r := restoreOf(nil)
	owner := reconcile.OwnerOf(&DataRestores{}, r)
	rehearsed := claimOf(r, owner, modelOf(r, own), template())
	assert.Equal(t, rehearsed.OwnerReferences[0].UID, r.UID)
	assert.Assert(t, metav1.GetControllerOf(rehearsed) == nil)
	assert.DeepEqual(t, rehearsed.Spec, own.Spec)

	r = restoreOf(func(r *backupv1.DataRestore) {
		size := resource.MustParse("5Gi")
		r.Spec.DatabaseName, r.Spec.Storage = "other", &backupv1.RestoreStorage{Size: &size, StorageClassName: "slow", AccessMode: string(corev1.ReadWriteOnce)}
	})
	kept := claimOf(r, owner, modelOf(r, own), template())
	assert.Equal(t, len(kept.OwnerReferences), 0)
	assert.Equal(t, kept.Name+" "+*kept.Spec.StorageClassName+" "+kept.Spec.Resources.Requests.Storage().String(), "data-other-0 slow 5Gi")
	assert.Equal(t, kept.Labels[object.LabelInstance]+" "+kept.Labels[object.LabelComponent]+kept.Labels[object.LabelKind], "platform mysql")
	assert.DeepEqual(t, kept.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce})
	assert.Equal(t, kept.Annotations[object.AnnotationPolicy], object.PolicyKeep)
	assert.Assert(t, modelOf(restoreOf(nil), nil) == nil)
}

// The text about the loss has one line, even if parts of the loss are unknown.
func TestLoss(t *testing.T) {
	t.Parallel()
	at := func(text string) *time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		assert.NilError(t, err)
		return &parsed
	}
	result := &contract.Result{OK: true, ID: "20260102T150405Z-0a1b2c3d"}
	assert.Equal(t, lossOf(result).Summary, "everything since 2026-01-02T15:04:05Z")
	assert.Assert(t, lossOf(result).Transactions == nil)
	result.Later = &contract.Later{Reached: *at("2026-01-02T16:00:00Z")}
	assert.Equal(t, lossOf(result).Summary, "what was committed since 2026-01-02T16:00:00Z")
	result.Later.Transactions, result.Later.First = 3, at("2026-01-02T15:30:00Z")
	assert.Equal(t, lossOf(result).Summary, "3 transactions since 2026-01-02T15:30:00Z, and what was committed since 2026-01-02T16:00:00Z")
	assert.Equal(t, restoredTo(&contract.Result{ID: "x"}) == nil, true)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/object"
)

// container is the name of the container that makes the backup.
const container = "backup"

// labelJob is on the pods of a Job.
const labelJob = "batch.kubernetes.io/job-name"

// World is what is observed of a backup: plain data.
type World struct {
	// Source is the CronJob for the backups of the data; nil where there is none, and Problem says why.
	Source  *Source
	Problem string
	// Job is the backup's; nil where there is none.
	Job *Job
	// Conflict is whose the Job of that name is, where it is not the backup's.
	Conflict string
}

// Source is how backups of some data are made.
type Source struct {
	Name     string // of the CronJob
	Template batchv1.JobTemplateSpec
}

// Job is the Job of a backup, and what its pods say.
type Job struct {
	UID             string
	Created         metav1.Time
	Ended           *metav1.Time
	Done, Succeeded bool
	Reason, Message string  // why Kubernetes ended it
	Result          *Result // what the last pod that ended has said; nil for nothing
	Exit            int32   // its code
	Waiting         string  // why a pod does not start
}

// Result is what a pod says at its end: the last line that the agent prints (package contract of cmd/agent).
type Result struct {
	OK          bool     `json:"ok"`
	Reason      string   `json:"reason"`
	Message     string   `json:"message"`
	ID          string   `json:"id"`
	Bytes       int64    `json:"bytes"`
	StoredBytes int64    `json:"storedBytes"`
	Tables      int32    `json:"tables"`
	Rows        int64    `json:"rows"`
	Server      string   `json:"server"`
	Seconds     float64  `json:"seconds"`
	Warnings    []string `json:"warnings"`
	Position    *struct {
		File   string `json:"file"`
		Offset int64  `json:"offset"`
		GTID   string `json:"gtid"`
	} `json:"position"`
}

// Observe looks at the Job of a backup, and at what it is to be made from. A backup that has ended is not looked at.
func (k *Kind) Observe(ctx context.Context, b *backupv1.DataBackup, _ engine.Seen, _ kinds.Pods) (World, error) {
	var w World
	if isFinal(b.Status.Phase) {
		return w, nil
	}
	job, err := k.job(ctx, b)
	if err != nil {
		return w, err
	}
	if job != nil {
		if !kinds.OwnerOf(k, b).Controls(job) {
			w.Conflict = "nobody"
			if ref := metav1.GetControllerOfNoCopy(job); ref != nil {
				w.Conflict = ref.Kind + " " + ref.Name
			}
			return w, nil
		}
		w.Job, err = k.follow(ctx, job)
		return w, err
	}
	w.Source, w.Problem, err = k.source(ctx, b)
	return w, err
}

// job returns the Job that has the backup's name, or nil. Where the status knows of one that the cache does not show, the
// API server is asked: a cache may be older than the status.
func (k *Kind) job(ctx context.Context, b *backupv1.DataBackup) (*batchv1.Job, error) {
	found := object.Empty(object.JobKind)
	err := k.client.Get(ctx, client.ObjectKeyFromObject(b), found)
	if apierrors.IsNotFound(err) {
		// Also a Job without the operator's label is in nobody's cache, and in the way.
		live := &batchv1.Job{}
		if err = k.live.Get(ctx, client.ObjectKeyFromObject(b), live); err == nil {
			return live, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at Job %s: %w", b.Name, err)
	}
	job := &batchv1.Job{}
	if err := into(found, job); err != nil {
		return nil, err
	}
	return job, nil
}

func into(from *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("read %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

// follow says where a Job stands.
func (k *Kind) follow(ctx context.Context, job *batchv1.Job) (*Job, error) {
	j := &Job{UID: string(job.UID), Created: job.CreationTimestamp, Ended: job.Status.CompletionTime}
	j.Done, j.Succeeded, j.Reason, j.Message = isDone(job)
	if j.Done && j.Ended == nil {
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed {
				j.Ended = &c.LastTransitionTime
			}
		}
	}
	if err := k.read(ctx, k.client, job, j); err != nil {
		return nil, err
	}
	if j.Done && j.Result == nil { // the cache of pods may be older than that of Jobs
		return j, k.read(ctx, k.live, job, j)
	}
	return j, nil
}

// read reads what the pods of a Job say.
func (k *Kind) read(ctx context.Context, from client.Reader, job *batchv1.Job, j *Job) error {
	pods := &corev1.PodList{}
	if err := from.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{labelJob: job.Name}); err != nil {
		return fmt.Errorf("list the pods of Job %s: %w", job.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		j.Waiting = ""
		if pod.Status.Phase == corev1.PodPending {
			j.Waiting = health.PodProblem(pod)
		}
		j.take(pod)
	}
	return nil
}

// take takes what a pod has said, where it has ended. A pod that succeeded has the last word.
func (j *Job) take(pod *corev1.Pod) {
	for _, c := range pod.Status.ContainerStatuses {
		end := c.State.Terminated
		if c.Name != container || end == nil || j.Result != nil && j.Result.OK {
			continue
		}
		j.Exit = end.ExitCode
		var result Result
		if err := json.Unmarshal([]byte(end.Message), &result); err == nil && (result.OK || result.Message != "") {
			result.OK = result.OK && end.ExitCode == 0
			j.Result = &result
		}
	}
}

// source returns the CronJob for the backups of what a DataBackup names.
func (k *Kind) source(ctx context.Context, b *backupv1.DataBackup) (source *Source, problem string, err error) {
	of := b.Spec.Of
	kind := schema.GroupVersionKind{Group: backupv1.GroupVersion.Group, Kind: of.Kind}
	owner := object.Owner{GroupVersionKind: kind, Namespace: b.Namespace, Name: of.Name}
	list := object.EmptyList(object.CronJobKind)
	if err := k.client.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}); err != nil {
		return nil, "", fmt.Errorf("list the CronJobs of %s %s: %w", of.Kind, of.Name, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		ref := metav1.GetControllerOfNoCopy(o)
		if o.GetLabels()[object.LabelBackup] != of.Component || o.GetDeletionTimestamp() != nil ||
			ref == nil || ref.Kind != of.Kind || ref.Name != of.Name {
			continue
		}
		cron := &batchv1.CronJob{}
		if err := into(o, cron); err != nil {
			return nil, "", err
		}
		return &Source{Name: cron.Name, Template: cron.Spec.JobTemplate}, "", nil
	}
	return nil, fmt.Sprintf("%s %s of this namespace has no backup of %s: declare spec.%s.backup in it, or correct spec.of",
		of.Kind, of.Name, of.Component, of.Component), nil
}

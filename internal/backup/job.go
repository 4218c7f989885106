// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// The operator reads the reports of these containers of a Job.
const (
	// Container is the name of the container that does the work. The template contains it.
	Container = "backup"
	// ContainerValidate is the name of the container that first checks whether the work can succeed. Some Jobs lack it.
	ContainerValidate = "validate"
)

// labelJob is the label of a pod that names its Job.
const labelJob = "batch.kubernetes.io/job-name"

// Source is a CronJob whose template is used for Jobs.
type Source struct {
	Name     string // name of the CronJob
	UID      types.UID
	Template batchv1.JobTemplateSpec
}

// Job returns a new Job for a run outside of the CronJob's schedule, like `kubectl create job --from`. The CronJob's history
// limits apply to the Job.
func (s *Source) Job(name, namespace string) *batchv1.Job {
	template := s.Template.DeepCopy()
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: object.JobKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: template.Labels, Annotations: template.Annotations,
			// The owner reference does not block the deletion of the owner. Otherwise the operator would need a right
			// on the finalizers of CronJobs.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: object.CronJobKind.Kind, Name: s.Name, UID: s.UID, Controller: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
}

// Of identifies a resource with data.
type Of struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// Job is the state of a Job and the reports of its pods.
type Job struct {
	UID             string
	Created         metav1.Time
	Ended           *metav1.Time
	Done, Succeeded bool
	Reason, Message string           // reason and message with which Kubernetes ended the Job
	Result          *contract.Result // report of the last pod that has ended; nil for none
	Exit            int32            // exit code of the last pod's container
	Waiting         string           // reason why a pod does not start
	HasReported     bool             // the working container of the last pod has ended

	// Stuck is the reason why no pod runs. It is empty if a pod runs, or should run soon. IsSuspended reports whether the Job is suspended.
	Stuck       string
	IsSuspended bool
	// Held are the containers of the last pod that still run after its working container has ended. HeldSince is the
	// time at which that container ended.
	Held      []string
	HeldSince metav1.Time
	// Others is the number of earlier pods that have not ended.
	Others int

	// Validated is the report of ContainerValidate in the last pod; nil for none.
	Validated *contract.Result
	// IsAtWork reports whether Container of the last pod runs. IsStarted and IsReady are the results of its probes.
	IsAtWork, IsStarted, IsReady bool

	// hasPod reports whether the last pod has not ended. begun is its creation time, or zero.
	hasPod bool
	begun  time.Time
}

// Reader reads Jobs and their templates from the operator's cache and from the API server.
type Reader struct {
	Client client.Client
	Live   client.Reader
}

// Get returns the Job with a name, or nil. If the cache has no such Job, Get reads from the API server, for two
// reasons. The cache may be older than the status. And a Job without the operator's label is not in the cache, but
// still uses the name.
func (r Reader) Get(ctx context.Context, key client.ObjectKey) (*batchv1.Job, error) {
	found := object.Empty(object.JobKind)
	err := r.Client.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		live := &batchv1.Job{}
		if err = r.Live.Get(ctx, key, live); err == nil {
			return live, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Job %s: %w", key.Name, err)
	}
	job := &batchv1.Job{}
	return job, into(found, job)
}

func into(from *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("read %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

// ControllerOf returns a text that names the controller of a Job. Messages use this text if another controller
// than expected has made the Job.
func ControllerOf(job *batchv1.Job) string {
	if ref := metav1.GetControllerOfNoCopy(job); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	return "no controller"
}

// Source returns the CronJob that a resource controls and whose label object.LabelBackup has the given value, or nil.
func (r Reader) Source(ctx context.Context, of Of, label string) (*Source, error) {
	owner := object.Owner{GroupVersionKind: of.Kind, Namespace: of.Namespace, Name: of.Name}
	list := object.EmptyList(object.CronJobKind)
	if err := r.Client.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()}); err != nil {
		return nil, fmt.Errorf("list the CronJobs of %s %s: %w", of.Kind.Kind, of.Name, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		ref := metav1.GetControllerOfNoCopy(o)
		if o.GetLabels()[object.LabelBackup] != label || o.GetDeletionTimestamp() != nil ||
			ref == nil || ref.Kind != of.Kind.Kind || ref.Name != of.Name {
			continue
		}
		cron := &batchv1.CronJob{}
		if err := into(o, cron); err != nil {
			return nil, err
		}
		return &Source{Name: cron.Name, UID: cron.UID, Template: cron.Spec.JobTemplate}, nil
	}
	return nil, nil
}

// Follow returns the state of a Job.
func (r Reader) Follow(ctx context.Context, job *batchv1.Job) (*Job, error) {
	j := &Job{UID: string(job.UID), Created: job.CreationTimestamp, Ended: job.Status.CompletionTime}
	j.end(job)
	if err := j.read(ctx, r.Client, job); err != nil {
		return nil, err
	}
	if j.Done && j.Result == nil { // the cache of pods may be older than the cache of Jobs
		return j, j.read(ctx, r.Live, job)
	}
	if !j.Done && !j.hasPod {
		j.findStuck(ctx, r.Live, job, j.begun)
	}
	return j, nil
}

// end records whether a Job has ended, and how.
func (j *Job) end(job *batchv1.Job) {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			j.Done, j.Succeeded = true, true
		case batchv1.JobFailed:
			j.Done, j.Reason, j.Message = true, c.Reason, c.Message
			if j.Ended == nil {
				j.Ended = &c.LastTransitionTime
			}
		default: // the Job has not ended
		}
	}
}

// read reads the reports of a Job's pods.
func (j *Job) read(ctx context.Context, from client.Reader, job *batchv1.Job) error {
	pods := &corev1.PodList{}
	if err := from.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{labelJob: job.Name}); err != nil {
		return fmt.Errorf("list the pods of Job %s: %w", job.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], job) {
			if j.hasPod {
				j.Others++
			}
			j.Take(&pods.Items[i])
		}
	}
	return nil
}

// Take replaces the state of the last pod by the state of a newer pod, and adds the report of the newer pod. After a
// report of success, it ignores further reports.
func (j *Job) Take(pod *corev1.Pod) {
	j.Waiting, j.Validated, j.IsAtWork, j.IsStarted, j.IsReady = "", nil, false, false, false
	j.begun, j.hasPod = pod.CreationTimestamp.Time, pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	j.HasReported = false
	j.Held, j.HeldSince = heldBy(pod)
	if pod.Status.Phase == corev1.PodPending {
		j.Waiting = health.PodProblem(pod)
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if end := c.State.Terminated; end != nil && c.Name == ContainerValidate {
			if j.Validated = resultOf(end); end.ExitCode != 0 {
				j.report(end)
			}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != Container {
			continue
		}
		j.IsAtWork = c.State.Running != nil
		j.IsStarted, j.IsReady = c.Started != nil && *c.Started, c.Ready
		if c.State.Terminated != nil {
			j.HasReported = true
			j.report(c.State.Terminated)
		}
	}
}

func (j *Job) report(end *corev1.ContainerStateTerminated) {
	if j.Result != nil && j.Result.OK {
		return
	}
	j.Exit = end.ExitCode
	if result := resultOf(end); result != nil {
		j.Result = result
	}
}

// Why returns the reason why a Job failed, if no pod has reported one.
func (j *Job) Why() string {
	text := j.Message
	if text == "" {
		text = j.Reason
	}
	if text == "" {
		text = "Kubernetes reports no reason"
	}
	if j.Exit != 0 {
		text += fmt.Sprintf("; exit code %d", j.Exit)
	}
	return text
}

// Size formats a number of bytes.
func Size(bytes int64) string {
	value, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= 1024 {
		value, units = value/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

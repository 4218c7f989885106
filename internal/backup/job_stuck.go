// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Only events state the reason why a Job has no pod.
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// A Job of a CronJob is deleted if its working container has ended while another container of its pod still runs: such a Job blocks the
// next Job.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=delete

const (
	// refusalDue is the time after which the operator reads the events of the Job controller. That controller creates a
	// pod immediately, or records in an event why it cannot.
	refusalDue = 3 * time.Second
	// podDue is the time in which Kubernetes should create the pod of a Job.
	podDue = 10 * time.Second
	// whileDue is the interval between observations of a Job whose pod should start.
	whileDue = 4 * time.Second
	// heldFor is the time for which other containers may run after the working container has ended.
	heldFor = time.Minute
)

// findStuck sets the reason why an unfinished Job has no running pod. begun is the creation time of the Job's last pod, or zero.
func (j *Job) findStuck(ctx context.Context, live client.Reader, job *batchv1.Job, begun time.Time) {
	if ptr.Deref(job.Spec.Suspend, false) {
		j.IsSuspended = true
		j.Stuck = "it is suspended (spec.suspend), by a queue such as Kueue or by a person, and starts when the suspension ends"
		return
	}
	age := time.Since(job.CreationTimestamp.Time)
	if age < refusalDue {
		return
	}
	if message := refusal(ctx, live, job, begun); message != "" {
		j.Stuck = message
	} else if begun.IsZero() && age >= podDue {
		j.Stuck = "it has no pod: `kubectl describe job " + job.Name + "` shows why"
	}
}

// LookAgain returns the time until the next observation of the Job. It is short while the first pod should start.
// Otherwise it is the argument later.
func (j *Job) LookAgain(later time.Duration) time.Duration {
	if !j.Done && !j.IsAtWork && j.Stuck == "" && j.Waiting == "" && time.Since(j.Created.Time) < podDue {
		return whileDue
	}
	return later
}

// refusal returns the reason why the last pod of a Job could not be created. It reads events of the Job controller that
// are newer than after. It returns "" if the operator may not list events.
func refusal(ctx context.Context, live client.Reader, job *batchv1.Job, after time.Time) string {
	events := &corev1.EventList{}
	if err := live.List(ctx, events, client.InNamespace(job.Namespace), client.MatchingFields{"involvedObject.uid": string(job.UID)}); err != nil {
		return ""
	}
	newest, message := after, ""
	for i := range events.Items {
		e := &events.Items[i]
		if at := health.LastSeen(e); e.Reason == "FailedCreate" && !at.Before(newest) {
			newest, message = at, health.Essence(e.Message)
		}
	}
	return message
}

// heldBy returns the containers of a pod that still run although the working container has ended, and the time of that end.
func heldBy(pod *corev1.Pod) (containers []string, since metav1.Time) {
	if pod.Status.Phase != corev1.PodRunning {
		return nil, since
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.Name == Container && c.State.Terminated != nil:
			since = c.State.Terminated.FinishedAt
		case c.Name == Container:
			return nil, since
		case c.State.Running != nil:
			containers = append(containers, c.Name)
		}
	}
	if since.IsZero() {
		return nil, since
	}
	slices.Sort(containers)
	return containers, since
}

// HasFailed reports whether the working container has failed while other containers of its pod still run. In this
// state, Kubernetes does not start the working container again.
func (j *Job) HasFailed() bool {
	return len(j.Held) > 0 && j.HasReported && j.Exit != 0 && time.Since(j.HeldSince.Time) > heldFor
}

// Failure returns the report of a failed attempt. Without a report, it returns a result with the exit code.
func (j *Job) Failure() contract.Result {
	if j.Result != nil && !j.Result.OK {
		return *j.Result
	}
	return contract.Result{Message: fmt.Sprintf("container %s ended with exit code %d", Container, j.Exit)}
}

// HasSucceeded reports whether the agent has reported success. Another container may keep the Job running.
func (j *Job) HasSucceeded() bool {
	return j.Result != nil && j.Result.OK && (j.Done && j.Succeeded || len(j.Held) > 0)
}

// Holders returns a text about the containers that prevent a Job from ending.
func (j *Job) Holders() string {
	return "its pod does not end, because of " + strings.Join(j.Held, ", ") + ": keep such containers out of pods of backups (backup.podTemplate)"
}

// Unfinished is a Job of a CronJob that has not ended.
type Unfinished struct {
	Name string
	UID  types.UID
	// Stuck is the reason why the Job has no running pod. It is empty if a pod runs, or should run soon.
	Stuck string
	// IsHeld reports whether the working container ended a while ago and another container of the pod still runs.
	IsHeld bool
}

// Unfinished returns the unfinished Jobs of the CronJobs for the data of a component, sorted by name.
func (r Reader) Unfinished(ctx context.Context, namespace, instance, component string) ([]Unfinished, error) {
	list := object.EmptyList(object.JobKind)
	labels := client.MatchingLabels{object.LabelInstance: instance, object.LabelComponent: component + PartJobs}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace), labels); err != nil {
		return nil, fmt.Errorf("list the Jobs of the backups of %s: %w", instance, err)
	}
	var found []Unfinished
	for i := range list.Items {
		job := &batchv1.Job{}
		if err := into(&list.Items[i], job); err != nil {
			return nil, err
		}
		if !isOfCronJob(job) {
			continue
		}
		j, err := r.Follow(ctx, job)
		if err != nil {
			return nil, err
		}
		if !j.Done {
			found = append(found, Unfinished{
				Name: job.Name, UID: job.UID, Stuck: j.Stuck, IsHeld: len(j.Held) > 0 && time.Since(j.HeldSince.Time) > heldFor,
			})
		}
	}
	slices.SortFunc(found, func(a, b Unfinished) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func isOfCronJob(job *batchv1.Job) bool {
	ref := metav1.GetControllerOfNoCopy(job)
	return ref != nil && ref.Kind == object.CronJobKind.Kind
}

// End deletes a Job whose working container has ended while other containers still run, so that the CronJob can create
// the next Job. Right before the deletion, it reads the Job and its pods from the API server. If their state has
// changed, it deletes nothing and returns nil.
func (r Reader) End(ctx context.Context, namespace string, u Unfinished) error {
	job := &batchv1.Job{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: u.Name}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Job %s: %w", u.Name, err)
	}
	j := &Job{}
	if err := j.read(ctx, r.Live, job); err != nil {
		return err
	}
	if j.end(job); job.UID != u.UID || !isOfCronJob(job) || j.Done || len(j.Held) == 0 || j.Others > 0 {
		return nil
	}
	uid := job.UID
	err = r.Client.Delete(ctx, job, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s, whose work has ended: %w", u.Name, err)
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

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

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// Why a Job has no pod is in events alone.
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// The Job of a CronJob goes whose work has ended while another container of its pod runs on: it keeps the next one from being made.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=delete

const (
	// podDue is how long Kubernetes has to create the pod of a Job.
	podDue = 10 * time.Second
	// heldFor is how long other containers may run after the one that does the work.
	heldFor = time.Minute
)

// findStuck notes why a Job that has not ended has no pod at work. begun is when its last pod was created, the zero time for none.
func (j *Job) findStuck(ctx context.Context, live client.Reader, job *batchv1.Job, begun time.Time) {
	if ptr.Deref(job.Spec.Suspend, false) {
		j.IsSuspended = true
		j.Stuck = "it is suspended (spec.suspend), by a queue such as Kueue or by a person, and starts when that ends"
		return
	}
	if time.Since(job.CreationTimestamp.Time) < podDue {
		return
	}
	if message := refusal(ctx, live, job, begun); message != "" {
		j.Stuck = message
	} else if begun.IsZero() {
		j.Stuck = "it has no pod: `kubectl describe job " + job.Name + "` shows why"
	}
}

// refusal returns why the last pod of a Job could not be created, as the Job controller recorded it after a time. Without the right to
// list events nothing is known.
func refusal(ctx context.Context, live client.Reader, job *batchv1.Job, after time.Time) string {
	events := &corev1.EventList{}
	if err := live.List(ctx, events, client.InNamespace(job.Namespace), client.MatchingFields{"involvedObject.uid": string(job.UID)}); err != nil {
		return ""
	}
	newest, message := after, ""
	for i := range events.Items {
		e := &events.Items[i]
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		if e.Reason == "FailedCreate" && !at.Before(newest) {
			newest, message = at, health.Essence(e.Message)
		}
	}
	return message
}

// heldBy returns the containers of a pod that run on although the one that does the work has ended, and since when it has.
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

// HasFailed reports whether the work has failed and is not tried again, because other containers have kept the pod from ending.
func (j *Job) HasFailed() bool {
	return len(j.Held) > 0 && j.HasReported && j.Exit != 0 && time.Since(j.HeldSince.Time) > heldFor
}

// Failure returns the report of a try that failed, or one that gives its exit code.
func (j *Job) Failure() Result {
	if j.Result != nil && !j.Result.OK {
		return *j.Result
	}
	return Result{Message: fmt.Sprintf("container %s ended with exit code %d", Container, j.Exit)}
}

// HasSucceeded reports whether the work has succeeded by what the agent says: the Job may go on while another container runs.
func (j *Job) HasSucceeded() bool {
	return j.Result != nil && j.Result.OK && (j.Done && j.Succeeded || len(j.Held) > 0)
}

// Holders describes the containers that keep a Job from ending.
func (j *Job) Holders() string {
	return "its pod does not end, because of " + strings.Join(j.Held, ", ") + ": keep such containers out of pods of backups (backup.podTemplate)"
}

// PartJobs ends the value of the name label on Jobs for backups and their pods, after that of the data's part.
const PartJobs = ".backup"

// Unfinished is a Job of a CronJob that has not ended.
type Unfinished struct {
	Name string
	UID  types.UID
	// Stuck is why it has no pod at work; empty where it has one, or ought to have one soon.
	Stuck string
	// IsHeld reports whether its work ended a while ago, and another container keeps its pod from ending.
	IsHeld bool
}

// Unfinished returns the Jobs of the CronJobs that look after the data of a component, by name.
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

// End deletes a Job whose work has ended while other containers run on, after it was read from the API server with its pods: what the
// agent does in the pod is over, and the CronJob can make the next Job. It is no error where that is not so any more.
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

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/reconcile"
)

// partMembers is the part of the pods that check whether a member can use the data of a single server. containerMembers is the name of
// their container.
const (
	partMembers      = Component + ".members"
	containerMembers = "members"
)

// Takeover is the change of a single server to several members: the facts about the server, and the next write.
type Takeover struct {
	// Database is the name of the server's database. Mark is the mark of the volume in the record.
	Database, Mark string
	// Image is the image of the members. Job is the name of the Job that judges the data for this spec.
	Image, Job string

	// Record, Claim and Workload belong to the server. Pods are the server's pods. Checks are the pods that judge its data.
	Record, Claim, Workload *unstructured.Unstructured
	Pods, Checks            []*corev1.Pod
	in                      reconcile.Inputs
	spec                    Declared
	// IsUnknown reports whether the operator does not know the image of the agent.
	IsUnknown bool
}

// longestReport limits the bytes of a Job's report.
const longestReport = 400

// The actions of a takeover.
const (
	takeoverWaits   = ""
	takeoverRefused = "Refused"
	takeoverCheck   = "CheckData"     // create the Job that judges the data
	takeoverHand    = "HandOverClaim" // label the claim as the first member's: the server stops, and never starts again
)

// Decide returns the next write, and a message for users.
func (t *Takeover) Decide() (act, message string) {
	if why := t.refusal(); why != "" {
		return takeoverRefused, why
	}
	d := &Database{Name: t.Database, Pods: t.Pods}
	d.Part()
	pod := d.readyPod()
	switch {
	case pod == nil || reportedID(pod) == "":
		return takeoverWaits, "several members are wanted: waits until the server is ready"
	case reportedID(pod) != t.Mark:
		return takeoverRefused, fmt.Sprintf("makes several members, but the server runs on a volume with the mark %s, not %s", reportedID(pod), t.Mark)
	}
	check, hasEnded := t.check()
	switch {
	case !hasEnded && check:
		return takeoverWaits, "several members are wanted: waits until Job " + t.Job + " has checked the data"
	case !hasEnded:
		return takeoverCheck, fmt.Sprintf("several members are wanted: Job %s checks whether they can use the data", t.Job)
	}
	reported, why := t.reported()
	switch {
	case why != "":
		return takeoverRefused, fmt.Sprintf("makes several members, which cannot use the data: %s. Then delete Job %s", why, t.Job)
	case reported != t.Mark:
		return takeoverRefused, fmt.Sprintf("makes several members, but Job %s found a volume with the mark %q, not %s", t.Job, reported, t.Mark)
	}
	return takeoverHand, fmt.Sprintf("PersistentVolumeClaim %s becomes the claim of the first member: the server restarts once", ClaimName(t.Database))
}

// refusal returns the reason why the server cannot become several members in its present state, or "".
func (t *Takeover) refusal() string {
	const first = "makes several members, but "
	switch image := t.image(); {
	case t.IsUnknown:
		return first + "needs the image of the agent, which the operator does not know: set RELATED_IMAGE_AGENT in the operator's environment"
	case t.Mark == "":
		return first + "the volume of the one server has no mark, so that no member could recognise the volume: restart the pod of the server first, so that its guard marks the volume"
	case t.Workload == nil:
		return first + "the one server must run as a StatefulSet first: set kind StatefulSet with replica 1"
	case t.Image == "":
		return fmt.Sprintf("%sthe members would have another image by default: set image to %s, which the server runs", first, image)
	case image != t.Image:
		return fmt.Sprintf("%sthe image of the members would be %s instead of %s, which the server runs: change image before replica, or after it", first, t.Image, image)
	case t.Claim == nil || t.Claim.GetDeletionTimestamp() != nil || metav1.GetControllerOf(t.Claim) != nil:
		return fmt.Sprintf("%sPersistentVolumeClaim %s, which must outlive the server, does not exist, is being deleted, or has a controller", first, ClaimName(t.Database))
	case !slices.Equal(accessModes(t.Claim), []string{string(corev1.ReadWriteOnce)}):
		return fmt.Sprintf("%sPersistentVolumeClaim %s must have the access mode ReadWriteOnce alone: otherwise no Job may be able to check its data while the server runs", first, ClaimName(t.Database))
	}
	if claimed, _, _ := unstructured.NestedString(t.Record.Object, "data", contract.RecordClaim); claimed != string(t.Claim.GetUID()) {
		return fmt.Sprintf("%sPersistentVolumeClaim %s is not the claim in the record of the database", first, ClaimName(t.Database))
	}
	return ""
}

func accessModes(claim *unstructured.Unstructured) []string {
	modes, _, _ := unstructured.NestedStringSlice(claim.Object, "spec", "accessModes")
	return modes
}

// image returns the image of the server, or "".
func (t *Takeover) image() string {
	if t.Workload == nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(t.Workload.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if container, _ := c.(map[string]any); nameOf(c) == t.Database {
			image, _ := container["image"].(string)
			return image
		}
	}
	return ""
}

// check reports whether the pod that judges the data exists, and whether it has ended.
func (t *Takeover) check() (exists, hasEnded bool) {
	for _, pod := range t.Checks {
		if pod.Labels[labelJobName] == t.Job && pod.DeletionTimestamp == nil {
			exists = true
			hasEnded = hasEnded || ended(pod) != nil
		}
	}
	return exists, hasEnded
}

// labelJobName is the label of the pods of a Job.
const labelJobName = "batch.kubernetes.io/job-name"

// ended returns the termination of the container that judges the data, or nil. A termination without a report does not
// count, because the Job then starts another pod.
func ended(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == containerMembers && c.State.Terminated != nil && c.State.Terminated.Message != "" {
			return c.State.Terminated
		}
	}
	return nil
}

// reported returns the mark of the server's volume, as the check has reported it, or the reason why the volume cannot
// become a member's.
func (t *Takeover) reported() (mark, why string) {
	for _, pod := range t.Checks {
		end := ended(pod)
		if end == nil || pod.Labels[labelJobName] != t.Job {
			continue
		}
		var r struct {
			contract.Guarded
			contract.Refusal
		}
		switch err := json.Unmarshal([]byte(end.Message), &r); {
		case err != nil:
			return "", "the report of Pod " + pod.Name + " cannot be read"
		case r.Reason != "" || end.ExitCode != 0:
			return "", r.Message[:min(len(r.Message), longestReport)]
		default:
			mark = r.ID
		}
	}
	return mark, ""
}

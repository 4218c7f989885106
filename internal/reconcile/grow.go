// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

const (
	// volumeContainer is the container of a pod that reports the use of a volume.
	volumeContainer = "d3os-volume"
	// reportedVolume is the name of the volume that a pod reports. The charts set it (common.volumeReport). The cache
	// omits the containers of pods, so the operator cannot read the name from them.
	reportedVolume = "data"
	// volumesSeen is the interval between two measurements of the volumes of a part that does not change.
	volumesSeen = 30 * time.Second
	// measuredAtOnce bounds the pods of a part that are queried in parallel.
	measuredAtOnce = 16
)

// growVolumes measures the volumes of the parts with an apply.GrowthPolicy, and grows volumes that are nearly full. A volume grows even if
// its server cannot run.
func (e *Engine) growVolumes(ctx context.Context, owner object.Owner, seen *PlanSeen, recorder Recorder) error {
	for i := range seen.Parts {
		part := &seen.Parts[i]
		if part.grow == nil {
			continue
		}
		if part.LookAgain == 0 || part.LookAgain > volumesSeen {
			part.LookAgain = volumesSeen
		}
		pods, err := e.Pods(ctx, owner, part.Name)
		if err != nil {
			return err
		}
		if pods, err = e.reporting(ctx, owner, part, pods); err != nil {
			return err
		}
		for j, use := range measure(ctx, pods) {
			if use == nil {
				continue
			}
			claim, err := e.reportedClaim(ctx, owner, pods[j])
			if err == nil && claim != nil {
				err = e.growVolume(ctx, part, claim, *use, recorder)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// growVolume takes one step of a volume's growth, or reports the obstacle.
func (e *Engine) growVolume(ctx context.Context, part *PartSeen, claim *unstructured.Unstructured, use contract.Volume, recorder Recorder) error {
	decided := part.grow.Decide(apply.Growable(claim), use)
	if decided.To > 0 {
		grown, refusal, err := e.applier.Grow(ctx, claim, decided.To, use.Capacity)
		if err != nil {
			return err
		}
		if grown {
			recorder.Record(ctx, Event{Type: corev1.EventTypeNormal, Reason: EventVolumeGrown, Action: "Grow", Related: referTo(claim),
				Note: fmt.Sprintf("PersistentVolumeClaim %s grows to %s: its file system was nearly full", claim.GetName(), apply.SizeText(decided.To))})
		}
		if refusal != nil {
			decided.Obstacle = refused(claim, refusal.Answer)
		}
	}
	if decided.Obstacle == "" {
		e.obstacles.Remove(claim.GetUID())
		return nil
	}
	note := fmt.Sprintf("PersistentVolumeClaim %s is nearly full, but does not grow: %s", claim.GetName(), decided.Obstacle)
	part.Notes = append(part.Notes, health.Note{Text: note, Culprit: health.Culprit{Kind: claim.GetKind(), Name: claim.GetName(), Reason: health.ReasonVolumeFull}})
	if known, _ := e.obstacles.Get(claim.GetUID()); known != note {
		e.obstacles.Add(claim.GetUID(), note)
		recorder.Record(ctx, Event{Type: corev1.EventTypeWarning, Reason: EventVolumeNotGrown, Action: "Grow", Related: referTo(claim), Note: note})
	}
	if decided.IsFull && !part.Health.Settled {
		part.Health.AddDoubt(health.Culprit{Kind: claim.GetKind(), Name: claim.GetName(), Reason: health.ReasonVolumeFull, Message: decided.Obstacle}, true)
	}
	return nil
}

// refused returns the Obstacle of a claim that the API server refused to grow. answer is the API server's error.
func refused(claim *unstructured.Unstructured, answer string) string {
	if strings.Contains(answer, "must support resize") {
		class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
		return fmt.Sprintf("storage class %s cannot expand volumes: allow volume expansion in it, or remove autoGrow", class)
	}
	return health.Essence(answer)
}

// measure returns the use of the volume of each pod; nil for a pod that does not answer.
func measure(ctx context.Context, pods []*corev1.Pod) []*contract.Volume {
	uses := make([]*contract.Volume, len(pods))
	var all workers.Group
	all.SetLimit(measuredAtOnce)
	for i, pod := range pods {
		all.Go(func() { uses[i] = StateOf[contract.Volume](ctx, pod.Status.PodIP, contract.VolumePort) })
	}
	all.Wait()
	return uses
}

// reporting returns the pods that report the use of a volume. The pods of a StatefulSet count only if a StatefulSet of the owner controls
// them, because any pod can have the owner's labels.
func (e *Engine) reporting(ctx context.Context, owner object.Owner, part *PartSeen, pods []*corev1.Pod) (own []*corev1.Pod, err error) {
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		if ref == nil || !reportsVolume(pod) {
			continue
		}
		if part.Kind == object.StatefulSetKind.Kind {
			set, err := e.Lookup(ctx, owner, part.Kind, ref.Name)
			if err != nil {
				return nil, err
			}
			if set == nil || set.GetUID() != ref.UID {
				continue
			}
		}
		own = append(own, pod)
	}
	return own, nil
}

func reportsVolume(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == volumeContainer {
			return c.State.Running != nil && pod.Status.PodIP != ""
		}
	}
	return false
}

// reportedClaim returns the claim of the volume that a pod reports, or nil if the owner has no such claim. A claim that is being deleted does
// not count.
func (e *Engine) reportedClaim(ctx context.Context, owner object.Owner, pod *corev1.Pod) (*unstructured.Unstructured, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name != reportedVolume || v.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := e.Lookup(ctx, owner, object.ClaimKind.Kind, v.PersistentVolumeClaim.ClaimName)
		if claim == nil || err != nil || claim.GetDeletionTimestamp() != nil {
			return nil, err
		}
		return claim, nil
	}
	return nil, nil
}

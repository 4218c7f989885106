// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// Event is a Kubernetes event about an owner.
type Event struct {
	Type   string // corev1.EventTypeNormal or EventTypeWarning
	Reason string
	Action string
	Note   string
	// Related is the object that the event is about. Without Related, events that differ only in their note are counted as one event.
	Related *corev1.ObjectReference
}

// Recorder records events.
type Recorder interface {
	Record(ctx context.Context, event Event)
}

// The reasons of the engine's events.
const (
	EventCreated          = "ComponentCreated"
	EventUpdated          = "ComponentUpdated"
	EventReplaced         = "ComponentReplaced"
	EventCorrected        = "DriftCorrected"
	EventRewritten        = "PolicyChangedObject"
	EventPruned           = "Pruned"
	EventVolumeNotResized = "VolumeNotResized"
	EventVolumeGrown      = "VolumeGrown"
	EventVolumeNotGrown   = "VolumeNotGrown"
)

func referTo(o *unstructured.Unstructured) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
	}
}

// recordApplied records an event for a write of one object. The event of a workload also covers the objects that are created in its
// rollout. Each correction of drift is recorded as an event.
func recordApplied(ctx context.Context, recorder Recorder, part *Part, planned *unstructured.Unstructured, result apply.Result) {
	action := result.Action
	known := part != nil && part.Known == part.Revision && part.IsOfThisSpec
	workload := part != nil && (hasPods(planned) || object.IsResource(planned))
	event := Event{Type: corev1.EventTypeNormal, Related: referTo(planned)}
	what := planned.GetKind() + " " + planned.GetName()
	switch {
	case action == apply.Corrected:
		event.Reason, event.Action, event.Note = EventCorrected, "Correct", what+" had been changed by another writer, and was restored"+removed(result.Variables)
	case action == apply.Created && known && !result.AfterReplace:
		metrics.DriftCorrections.WithLabelValues(planned.GetKind()).Inc()
		event.Reason, event.Action, event.Note = EventCorrected, "Correct", what+" had been deleted by another writer, and was created again"
	case action == apply.Created && workload:
		event.Reason, event.Action, event.Note = EventCreated, "Create", fmt.Sprintf("%s: created %s", part.Name, what)
	case action == apply.Updated:
		event.Reason, event.Action, event.Note = EventUpdated, "Update", "updated "+what
		if workload && part.Restart != "" {
			event.Note += ": " + part.Restart
		}
	case action == apply.Replaced:
		event.Reason, event.Action, event.Note = EventReplaced, "Replace", what+" cannot be changed in place: it is deleted and created again; "+podsDuringReplace(planned)
	default:
		return
	}
	recorder.Record(ctx, event)
}

// reloaderPrefix is the prefix of the variable that Reloader (github.com/stakater/Reloader) sets to restart pods, unless Reloader is set to
// use annotations.
const reloaderPrefix = "STAKATER_"

// removed describes the variables that a correction has removed, or returns "" if it has removed none.
func removed(variables []string) string {
	if len(variables) == 0 {
		return ""
	}
	note := "; removed variables that the spec does not declare: " + strings.Join(variables, ", ")
	if slices.ContainsFunc(variables, func(name string) bool { return strings.HasPrefix(name, reloaderPrefix) }) {
		note += "; run Reloader with --reload-strategy=annotations, because the operator keeps annotations of pods"
	}
	return note
}

// recordRewritten records an event with the fields that an admission policy changed, once for each detected change.
func recordRewritten(ctx context.Context, recorder Recorder, planned *unstructured.Unstructured, rewrite *apply.Rewrite) {
	if rewrite == nil || !rewrite.IsNew {
		return
	}
	recorder.Record(ctx, Event{
		Type: corev1.EventTypeWarning, Reason: EventRewritten, Action: "Apply", Related: referTo(planned),
		Note: rewrite.Note(planned) + ". The object keeps the policy's values, and is not written again until the spec or the object changes",
	})
}

// podsDuringReplace describes the effect of replacing an object on the object's pods.
func podsDuringReplace(planned *unstructured.Unstructured) string {
	switch {
	case planned.GetKind() == "StatefulSet":
		return "the pods that its selector matches keep running"
	case hasPods(planned):
		return "its pods are replaced, too"
	}
	return "no pod is replaced for it"
}

func recordPruned(ctx context.Context, recorder Recorder, o *unstructured.Unstructured, deletionNote func(*unstructured.Unstructured) string) {
	note := fmt.Sprintf("removed %s %s, which is no longer declared", o.GetKind(), o.GetName())
	if deletionNote != nil {
		if more := deletionNote(o); more != "" {
			note += ": " + more
		}
	}
	recorder.Record(ctx, Event{Type: corev1.EventTypeNormal, Reason: EventPruned, Action: "Delete", Related: referTo(o), Note: note})
}

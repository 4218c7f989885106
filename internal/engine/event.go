// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// Event is something that people are told about an owner.
type Event struct {
	Type   string // corev1.EventTypeNormal or EventTypeWarning
	Reason string
	Action string
	Note   string
	// Related is the object that the event is about. Events that differ in nothing but their note
	// are counted and not shown, so each object needs to be named here as well.
	Related *corev1.ObjectReference
}

// Teller tells people what happened.
type Teller interface {
	Tell(ctx context.Context, event Event)
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
)

func referTo(o *unstructured.Unstructured) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
	}
}

// tellApplied says what became of one object. Objects that are created as part of a rollout are
// summed up by their workload; drift is told of each.
func tellApplied(ctx context.Context, teller Teller, part *Part, planned *unstructured.Unstructured, action apply.Action) {
	known := part != nil && part.Known == part.Revision && part.IsOfThisSpec
	workload := part != nil && (hasPods(planned) || object.IsResource(planned))
	event := Event{Type: corev1.EventTypeNormal, Related: referTo(planned)}
	what := planned.GetKind() + " " + planned.GetName()
	switch {
	case action == apply.Corrected:
		event.Reason, event.Action, event.Note = EventCorrected, "Correct", what+" had been changed by somebody else, and was restored"
	case action == apply.Created && known:
		metrics.DriftCorrections.WithLabelValues(planned.GetKind()).Inc()
		event.Reason, event.Action, event.Note = EventCorrected, "Correct", what+" had been deleted by somebody else, and was created again"
	case action == apply.Created && workload:
		event.Reason, event.Action, event.Note = EventCreated, "Create", fmt.Sprintf("%s: created %s", part.Name, what)
	case action == apply.Updated:
		event.Reason, event.Action, event.Note = EventUpdated, "Update", "updated "+what
	case action == apply.Replaced:
		event.Reason, event.Action, event.Note = EventReplaced, "Replace", what+" cannot be changed in place: it is deleted and created again; "+meanwhile(planned)
	default:
		return
	}
	teller.Tell(ctx, event)
}

// tellRewritten says once which field a policy changed.
func tellRewritten(ctx context.Context, teller Teller, planned *unstructured.Unstructured, rewrite *apply.Rewrite) {
	if rewrite == nil || !rewrite.IsNew {
		return
	}
	teller.Tell(ctx, Event{
		Type: corev1.EventTypeWarning, Reason: EventRewritten, Action: "Apply", Related: referTo(planned),
		Note: rewrite.Note(planned) + ". It stays so, and is not written again until the spec or the object changes",
	})
}

// meanwhile says what becomes of an object's pods while it is replaced.
func meanwhile(planned *unstructured.Unstructured) string {
	switch {
	case planned.GetKind() == "StatefulSet":
		return "pods that its selector still finds run on"
	case hasPods(planned):
		return "its pods are replaced, too"
	}
	return "no pod is replaced for it"
}

func tellPruned(ctx context.Context, teller Teller, o *unstructured.Unstructured, farewell func(*unstructured.Unstructured) string) {
	note := fmt.Sprintf("removed %s %s, which is no longer declared", o.GetKind(), o.GetName())
	if farewell != nil {
		if more := farewell(o); more != "" {
			note += ": " + more
		}
	}
	teller.Tell(ctx, Event{Type: corev1.EventTypeNormal, Reason: EventPruned, Action: "Delete", Related: referTo(o), Note: note})
}

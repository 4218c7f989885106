// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/metrics"
)

// sink receives the notes of the events that client-go's recorder writes. If the recorder only counts an event again,
// the note has the prefix "again: ".
type sink chan string

func (s sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s <- e.Note
	return e, nil
}

func (s sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s <- "again: " + e.Note
	return e, nil
}

// Each note makes a separate event, because each problem, each step and each write needs one. (client-go's recorder
// would count events that differ only in their note as one event.)
func TestEachNoteIsAnEvent(t *testing.T) {
	t.Parallel()
	problem := func(field, text string) Summary {
		return Summary{Problem: text, ProblemReason: "ComponentFailing", ProblemField: field}
	}
	warned := func(texts ...string) (s Summary) {
		for _, text := range texts {
			s.Warnings = append(s.Warnings, Warning{Reason: "BackupWarned", Text: text, Field: "status.backup.warnings"})
		}
		return s
	}
	step := func(text string) Summary { return Summary{Doing: Doing{Step: "Heal", Text: text}} }
	corrected := func(note string) Event {
		return Event{Type: corev1.EventTypeNormal, Reason: EventCorrected, Action: "Correct", Note: note, Related: &corev1.ObjectReference{Kind: "ConfigMap", Name: "auth"}}
	}
	for name, test := range map[string]struct {
		summaries []Summary
		events    []Event
		want      []string
	}{
		"problems of a component":    {summaries: []Summary{problem("status.components[auth]", "a"), problem("status.components[auth]", "b")}, want: []string{"a", "b"}},
		"problems in the conditions": {summaries: []Summary{problem("status.conditions", "a"), problem("status.conditions", "b")}, want: []string{"a", "b"}},
		"problems without a field":   {summaries: []Summary{problem("", "a"), problem("", "b")}, want: []string{"a", "b"}},
		"warnings":                   {summaries: []Summary{warned("a"), warned("a"), warned("a", "b"), {}, warned("b")}, want: []string{"a", "b", "again: b"}},
		"steps":                      {summaries: []Summary{step("a"), step("b")}, want: []string{"a", "b"}},
		"writes of an object":        {events: []Event{corrected("a"), corrected("b")}, want: []string{"a", "b"}},
		"one problem, twice":         {summaries: []Summary{problem("", "a"), {}, problem("", "a")}, want: []string{"a", "again: a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, ds := runtime.NewScheme(), &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "platform"}}
			assert.NilError(t, dsv1.AddToScheme(scheme))
			written := make(sink)
			broadcaster := events.NewBroadcaster(written)
			assert.NilError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
			t.Cleanup(broadcaster.Shutdown)
			r := newReporter(actor{}, nil, broadcaster.NewRecorder(scheme, "operator"), &metrics.Series{})
			var got []string
			was := Summary{}
			for _, is := range test.summaries {
				r.announce(t.Context(), ds, was, is)
				for _, w := range is.Warnings {
					if !slices.Contains(was.Warnings, w) {
						got = append(got, <-written)
					}
				}
				if is.Problem != "" || is.Doing.Step != "" {
					got = append(got, <-written)
				}
				was = is
			}
			for _, e := range test.events {
				r.recorderFor(ds).Record(t.Context(), e)
				got = append(got, <-written)
			}
			assert.DeepEqual(t, got, test.want)
		})
	}
}

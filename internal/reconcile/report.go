// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

const (
	// progressEvery is the minimum interval between status updates with only progress (one more component is ready). Changes of the phase,
	// and the start and end of problems, are written immediately.
	progressEvery = 250 * time.Millisecond
	// noteLimit is the number of bytes that the API server accepts in an event's note.
	noteLimit = 1024
)

// reporter publishes the result of a reconciliation: status, events, metrics.
type reporter[T client.Object, O any] struct {
	kind     Kind[T, O]
	client   client.Client
	recorder events.EventRecorder
	series   *metrics.Series
	mu       sync.Mutex
	written  map[types.NamespacedName]time.Time // time of the last status write
}

func newReporter[T client.Object, O any](kind Kind[T, O], c client.Client, recorder events.EventRecorder, series *metrics.Series) *reporter[T, O] {
	return &reporter[T, O]{kind: kind, client: c, recorder: recorder, series: series, written: map[types.NamespacedName]time.Time{}}
}

// report writes the status if a user would see a difference. It returns the resource with the status from the API
// server's answer. One reconciliation may report twice, and the second patch must be based on that status.
func (r *reporter[T, O]) report(ctx context.Context, resource T, seen Seen[O]) (T, ctrl.Result, error) {
	reported := resource.DeepCopyObject().(T)
	r.kind.Status(reported, seen, metav1.Now())
	boundStatus(reported)
	was, is := r.kind.Summary(resource), r.kind.Summary(reported)
	key := client.ObjectKeyFromObject(resource)
	if equality.Semantic.DeepEqual(resource, reported) {
		return resource, ctrl.Result{}, nil
	}
	onlyProgress := was.Phase == is.Phase && was.Generation == is.Generation && !is.Urgent
	if wait := r.wait(key); wait > 0 && onlyProgress {
		return resource, ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.client.Status().Patch(ctx, reported, client.MergeFrom(resource), client.FieldOwner(apply.FieldManager)); err != nil {
		r.announceTooLarge(ctx, resource, err)
		return resource, ctrl.Result{}, fmt.Errorf("write the status of %s: %w", key, err)
	}
	metrics.StatusWrites.Inc()
	r.mu.Lock()
	r.written[key] = time.Now()
	r.mu.Unlock()
	r.announce(ctx, reported, was, is)
	return reported, ctrl.Result{}, nil
}

func (r *reporter[T, O]) wait(key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.written[key].Add(progressEvery))
}

func (r *reporter[T, O]) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
}

// announce records an event when a resource becomes ready, stops being ready or fails, and for each running step and each warning.
func (r *reporter[T, O]) announce(ctx context.Context, resource T, was, is Summary) {
	events := r.recorderFor(resource)
	if is.Doing.Step != "" && is.Doing != was.Doing {
		events.Record(ctx, Event{
			Type: corev1.EventTypeNormal, Reason: is.Doing.Step, Action: "Step", Note: is.Doing.Text,
			Related: r.field(resource, "status.step"),
		})
	}
	for _, w := range is.Warnings {
		if !slices.Contains(was.Warnings, w) {
			events.Record(ctx, Event{Type: corev1.EventTypeWarning, Reason: w.Reason, Action: "Report", Note: w.Text, Related: r.field(resource, w.Field)})
		}
	}
	switch {
	case is.Ready && !was.Ready:
		if was.New {
			r.series.TimeToReady.Observe(time.Since(resource.GetCreationTimestamp().Time).Seconds())
		}
		events.Record(ctx, Event{
			Type: corev1.EventTypeNormal, Reason: "Ready", Action: "Report",
			Note: is.ReadyText,
		})
	case is.Problem != "" && was.Problem != is.Problem:
		events.Record(ctx, Event{
			Type: corev1.EventTypeWarning, Reason: is.ProblemReason, Action: "Report", Note: is.Problem,
			Related: r.field(resource, cmp.Or(is.ProblemField, "status.conditions")),
		})
	}
}

// announceTooLarge records an event if the API server cannot store a resource together with its status. No other object
// shows a user why the status is missing. The event is recorded at each attempt, because events expire.
func (r *reporter[T, O]) announceTooLarge(ctx context.Context, resource T, refusal error) {
	if !isTooLarge(refusal) {
		return
	}
	size := 0
	if data, err := json.Marshal(resource); err == nil {
		size = len(data)
	}
	r.recorderFor(resource).Record(ctx, Event{
		Type: corev1.EventTypeWarning, Reason: health.ReasonTooLarge, Action: "Report",
		Note: fmt.Sprintf("%s %s has %d bytes, which is too large to store together with its status: shorten spec, for example by moving long files into ConfigMaps that you create; "+
			"until then the status is old or empty: %s", r.kind.GVK().Kind, resource.GetName(), size, refusal),
	})
}

// isTooLarge reports whether the API server, its client or etcd refused an object because of its size. Most of these refusals have no
// separate reason, so the text is compared.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "message larger than max")
}

// field returns a reference to a field of a resource.
func (r *reporter[T, O]) field(resource T, path string) *corev1.ObjectReference {
	gvk := r.kind.GVK()
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: resource.GetNamespace(), Name: resource.GetName(),
		UID: resource.GetUID(), FieldPath: path,
	}
}

// recorderFor returns a Recorder of events about one resource.
func (r *reporter[T, O]) recorderFor(resource T) Recorder {
	return resourceRecorder{recorder: r.recorder, resource: resource}
}

type resourceRecorder struct {
	recorder events.EventRecorder
	resource client.Object
}

// Record publishes an event of the resource and logs it. client-go's recorder treats events that differ only in their
// note as one event, and keeps one note. So the field path of Related gets a digest of the note.
func (t resourceRecorder) Record(ctx context.Context, e Event) {
	log := ctrl.LoggerFrom(ctx)
	if e.Type == corev1.EventTypeWarning {
		log.Error(nil, e.Note, "reason", e.Reason)
	} else {
		log.Info(e.Note, "reason", e.Reason)
	}
	var related runtime.Object
	if e.Related != nil {
		distinct := *e.Related
		distinct.FieldPath += "{" + object.Sum([]byte(e.Note)) + "}"
		related = &distinct
	}
	t.recorder.Eventf(t.resource, related, e.Type, e.Reason, e.Action, "%s", cut(e.Note, noteLimit))
}

// cut shortens a text to a number of bytes, with an ellipsis at its end. It replaces control characters with spaces, because the text may
// come from a pod, and a terminal would execute these characters.
func cut(text string, limit int) string {
	const more = "..."
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit-len(more)], "") + more
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

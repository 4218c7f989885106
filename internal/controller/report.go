// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/metrics"
)

const (
	// progressEvery is how often mere progress (one more component ready) is written to the
	// status. Changes of the phase, problems and their end are written at once.
	progressEvery = 250 * time.Millisecond
	// noteLimit is the number of bytes of an event's note that the API server takes.
	noteLimit = 1024
	// relatedLimit is how much of a step's text tells its event from others.
	relatedLimit = 256
)

// reporter tells people what happened: status, events, metrics.
type reporter[T client.Object, W any] struct {
	kind     kinds.Kind[T, W]
	client   client.Client
	recorder events.EventRecorder
	series   *metrics.Series
	mu       sync.Mutex
	written  map[types.NamespacedName]time.Time // last status write
}

func newReporter[T client.Object, W any](kind kinds.Kind[T, W], c client.Client, recorder events.EventRecorder, series *metrics.Series) *reporter[T, W] {
	return &reporter[T, W]{kind: kind, client: c, recorder: recorder, series: series, written: map[types.NamespacedName]time.Time{}}
}

// report writes the status if a user would see a difference. It returns the resource with the status
// that the API server has then: a pass may report twice, and the second patch must start from there.
func (r *reporter[T, W]) report(ctx context.Context, resource T, seen kinds.Seen[W]) (T, ctrl.Result, error) {
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
		return resource, ctrl.Result{}, fmt.Errorf("write the status of %s: %w", key, err)
	}
	metrics.StatusWrites.Inc()
	r.mu.Lock()
	r.written[key] = time.Now()
	r.mu.Unlock()
	r.announce(ctx, reported, was, is)
	return reported, ctrl.Result{}, nil
}

func (r *reporter[T, W]) wait(key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.written[key].Add(progressEvery))
}

func (r *reporter[T, W]) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
}

// announce records an event when a resource becomes ready, stops being ready, fails, or is worked on.
func (r *reporter[T, W]) announce(ctx context.Context, resource T, was, is kinds.Summary) {
	teller := r.teller(resource)
	if is.Doing.Step != "" && is.Doing != was.Doing {
		teller.Tell(ctx, engine.Event{
			Type: corev1.EventTypeNormal, Reason: is.Doing.Step, Action: "Step", Note: is.Doing.Text,
			// Events that differ in their notes alone would be counted as one.
			Related: r.field(resource, "status.step{"+cut(is.Doing.Text, relatedLimit)+"}"),
		})
	}
	switch {
	case is.Ready && !was.Ready:
		if was.New {
			r.series.TimeToReady.Observe(time.Since(resource.GetCreationTimestamp().Time).Seconds())
		}
		teller.Tell(ctx, engine.Event{
			Type: corev1.EventTypeNormal, Reason: "Ready", Action: "Report",
			Note: is.ReadyText,
		})
	case is.Problem != "" && was.Problem != is.Problem:
		event := engine.Event{Type: corev1.EventTypeWarning, Reason: is.ProblemReason, Action: "Report", Note: is.Problem}
		if is.ProblemField != "" {
			event.Related = r.field(resource, is.ProblemField)
		}
		teller.Tell(ctx, event)
	}
}

// field refers to a field of a resource.
func (r *reporter[T, W]) field(resource T, path string) *corev1.ObjectReference {
	gvk := r.kind.GVK()
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: resource.GetNamespace(), Name: resource.GetName(),
		UID: resource.GetUID(), FieldPath: path,
	}
}

// teller tells about one resource.
func (r *reporter[T, W]) teller(resource T) engine.Teller {
	return teller{recorder: r.recorder, resource: resource}
}

type teller struct {
	recorder events.EventRecorder
	resource client.Object
}

// Tell tells the same to those who describe the resource and to those who read the log.
func (t teller) Tell(ctx context.Context, e engine.Event) {
	log := ctrl.LoggerFrom(ctx)
	if e.Type == corev1.EventTypeWarning {
		log.Error(nil, e.Note, "reason", e.Reason)
	} else {
		log.Info(e.Note, "reason", e.Reason)
	}
	var related runtime.Object
	if e.Related != nil {
		related = e.Related
	}
	t.recorder.Eventf(t.resource, related, e.Type, e.Reason, e.Action, "%s", cut(e.Note, noteLimit))
}

// cut shortens a text to a number of bytes, and says so with its last three.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}

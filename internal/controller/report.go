// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/status"
	"d3os.com/d3os-operator/internal/metrics"
)

// progressEvery is how often mere progress (one more component ready) is written to the
// status. Changes of the phase, problems and their end are written at once.
const progressEvery = 250 * time.Millisecond

// reporter tells people what happened: status, events, metrics.
type reporter struct {
	client   client.Client
	recorder events.EventRecorder
	mu       sync.Mutex
	written  map[types.NamespacedName]time.Time // last status write
}

func newReporter(c client.Client, recorder events.EventRecorder) *reporter {
	return &reporter{client: c, recorder: recorder, written: map[types.NamespacedName]time.Time{}}
}

// report writes the status if a user would see a difference.
func (r *reporter) report(ctx context.Context, ds *dsv1.DataService, seen status.Observation) (ctrl.Result, error) {
	next := status.Compute(ds.Status, seen, metav1.Now())
	r.measure(ds, next)
	if equality.Semantic.DeepEqual(ds.Status, next) {
		return ctrl.Result{}, nil
	}
	key := client.ObjectKeyFromObject(ds)
	if wait := r.wait(key); wait > 0 && onlyProgress(ds.Status, next) {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	before := ds.DeepCopy()
	ds.Status = next
	if err := r.client.Status().Patch(ctx, ds, client.MergeFrom(before), client.FieldOwner(apply.FieldManager)); err != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of %s: %w", key, err)
	}
	metrics.StatusWrites.Inc()
	r.mu.Lock()
	r.written[key] = time.Now()
	r.mu.Unlock()
	r.announce(ctx, before, ds)
	return ctrl.Result{}, nil
}

func (r *reporter) wait(key types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.written[key].Add(progressEvery))
}

func (r *reporter) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
}

// onlyProgress tells whether a status can wait a moment for the next to join it.
func onlyProgress(prev, next dsv1.DataServiceStatus) bool {
	return prev.Phase == next.Phase && prev.ObservedGeneration == next.ObservedGeneration &&
		next.Phase != dsv1.PhaseDegraded && next.Phase != dsv1.PhaseFailed && next.Phase != dsv1.PhaseRunning
}

// measure sets the gauges; they follow what was seen even when no status is written.
func (r *reporter) measure(ds *dsv1.DataService, next dsv1.DataServiceStatus) {
	if ds.Status.Phase != next.Phase {
		metrics.Phase.DeleteLabelValues(ds.Namespace, ds.Name, string(ds.Status.Phase))
	}
	metrics.Phase.WithLabelValues(ds.Namespace, ds.Name, string(next.Phase)).Set(1)
	for _, c := range next.Components {
		ready := 0.0
		if c.Phase == dsv1.PhaseRunning {
			ready = 1
		}
		metrics.ComponentReady.WithLabelValues(ds.Namespace, ds.Name, c.Name).Set(ready)
	}
	for _, c := range ds.Status.Components {
		if !hasComponent(next, c.Name) {
			metrics.ComponentReady.DeleteLabelValues(ds.Namespace, ds.Name, c.Name)
		}
	}
}

func hasComponent(s dsv1.DataServiceStatus, name string) bool {
	for _, c := range s.Components {
		if c.Name == name {
			return true
		}
	}
	return false
}

// announce records an event when a DataService becomes ready, stops being ready, or fails.
func (r *reporter) announce(ctx context.Context, before, after *dsv1.DataService) {
	was := meta.IsStatusConditionTrue(before.Status.Conditions, dsv1.ConditionReady)
	is := meta.IsStatusConditionTrue(after.Status.Conditions, dsv1.ConditionReady)
	degraded := meta.FindStatusCondition(after.Status.Conditions, dsv1.ConditionDegraded)
	switch {
	case is && !was:
		if before.Status.Phase == "" || before.Status.Phase == dsv1.PhasePending || before.Status.Phase == dsv1.PhaseCreating {
			metrics.TimeToReady.Observe(time.Since(after.CreationTimestamp.Time).Seconds())
		}
		r.event(ctx, after, corev1.EventTypeNormal, "Ready", "Report", "all components are ready (%s)", after.Status.Ready)
	case degraded != nil && degraded.Status == metav1.ConditionTrue && before.Status.Message != after.Status.Message:
		r.event(ctx, after, corev1.EventTypeWarning, degraded.Reason, "Report", "%s", degraded.Message)
	}
}

// applied records what became of one object. Objects that are created or updated as part of
// a rollout are summed up by their workload; drift is reported for each.
func (r *reporter) applied(ctx context.Context, ds *dsv1.DataService, c *plan.Component, planned *unstructured.Unstructured, result apply.Result, known bool) {
	workload := c != nil && planned.GetKind() == string(c.Kind)
	switch {
	case result.Action == apply.Corrected:
		r.event(ctx, ds, corev1.EventTypeNormal, "DriftCorrected", "Correct", "%s %s had been changed and was put back", planned.GetKind(), planned.GetName())
	case result.Action == apply.Created && known:
		metrics.DriftCorrections.WithLabelValues(planned.GetKind()).Inc()
		r.event(ctx, ds, corev1.EventTypeNormal, "DriftCorrected", "Correct", "%s %s was missing and was created again", planned.GetKind(), planned.GetName())
	case result.Action == apply.Created && workload:
		r.event(ctx, ds, corev1.EventTypeNormal, "ComponentCreated", "Create", "%s: created %s %s", c.Name, planned.GetKind(), planned.GetName())
	case result.Action == apply.Updated:
		r.event(ctx, ds, corev1.EventTypeNormal, "ComponentUpdated", "Update", "updated %s %s", planned.GetKind(), planned.GetName())
	case result.Action == apply.Replaced:
		r.event(ctx, ds, corev1.EventTypeNormal, "ComponentReplaced", "Replace", "%s %s cannot be changed in place and is being replaced", planned.GetKind(), planned.GetName())
	}
}

func (r *reporter) pruned(ctx context.Context, ds *dsv1.DataService, object *unstructured.Unstructured) {
	r.event(ctx, ds, corev1.EventTypeNormal, "Pruned", "Delete", "removed %s %s, which is no longer declared", object.GetKind(), object.GetName())
}

// event tells the same to those who describe the resource and to those who read the log.
func (r *reporter) event(ctx context.Context, ds *dsv1.DataService, kind, reason, action, format string, args ...any) {
	ctrl.LoggerFrom(ctx).Info(fmt.Sprintf(format, args...), "reason", reason)
	r.recorder.Eventf(ds, nil, kind, reason, action, format, args...)
}

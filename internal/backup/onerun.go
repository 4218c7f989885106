// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// oneRun has the methods that DataBackups and DataRestores share. A resource of these kinds stands for one run of a
// Job.
type oneRun[T client.Object, O any] struct{}

// Paused returns false: the kind has no field for a pause.
func (oneRun[T, O]) Paused(T) bool { return false }

// Forget does nothing, because nothing is cached.
func (oneRun[T, O]) Forget(string, string) {}

// Plan returns no objects: the objects of a run are created once, and are neither recreated nor corrected.
func (oneRun[T, O]) Plan(T, reconcile.Inputs, *O) (*reconcile.Plan, error) {
	return &reconcile.Plan{}, nil
}

// watchJobs maps events of Jobs to the resources of a kind that own them.
func watchJobs(b *builder.Builder, kind schema.GroupKind) {
	b.Watches(object.Empty(object.JobKind), handler.EnqueueRequestsFromMapFunc(func(_ context.Context, job client.Object) []ctrl.Request {
		found := object.OwnerOf(kind, job)
		if found.Name == "" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: found}}
	}))
}

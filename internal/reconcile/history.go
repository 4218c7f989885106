// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=create;list;delete

// keep adds an accepted spec to the history of its resource. A failure is logged, and does not end the reconciliation.
// The next reconciliation tries again.
func (r *Reconciler[T, O]) keep(ctx context.Context, resource T, seen *Seen[O]) {
	historian, ok := any(r.kind).(Historian[T])
	if !ok || seen.Paused || seen.Parts == nil {
		return
	}
	revision, ready, err := historian.Revision(resource)
	if err == nil && revision == nil {
		return
	}
	if err == nil {
		err = r.writeRevision(ctx, revision, ready)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the spec was not added to the history")
		return
	}
	seen.Kept = true
}

// writeRevision creates a revision. The revision may exist already if an earlier operator ended before it wrote the
// status. writeRevision also deletes surplus revisions.
func (r *Reconciler[T, O]) writeRevision(ctx context.Context, revision *appsv1.ControllerRevision, ready int64) error {
	revision.Annotations[object.AnnotationWriter] = r.parts.Version
	err := r.parts.Live.Create(ctx, revision, client.FieldOwner(apply.FieldManager))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if revision.Revision <= Limit {
		return nil // the history has at most Limit revisions
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	uid := revision.Labels[Label]
	if err := r.parts.Live.List(ctx, list, client.InNamespace(revision.Namespace), client.MatchingLabels{Label: uid}); err != nil {
		return fmt.Errorf("list the history of %s: %w", revision.Name, err)
	}
	all := make([]Numbered, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, Numbered{Name: list.Items[i].Name, Number: NumberOf(&list.Items[i])})
	}
	for _, surplus := range Surplus(all, ready) {
		old := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revision.Namespace, Name: surplus.Name}}
		if err := client.IgnoreNotFound(r.parts.Live.Delete(ctx, old)); err != nil {
			return fmt.Errorf("delete ControllerRevision %s/%s: %w", old.Namespace, old.Name, err)
		}
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/metrics"
)

// scrapePatience bounds how long a scrape may wait for the cache. It does not wait where the cache is filled.
const scrapePatience = time.Second

// show is what the metrics of a kind are made from while the operator runs: its resources, as the cache has
// them. It runs on a standby, too, so that no series ends when the leader changes.
type show[T client.Object, W any] struct {
	op     *Operator
	kind   kinds.Kind[T, W]
	series *metrics.Series
}

// Start shows the resources until the operator ends.
func (s *show[T, W]) Start(ctx context.Context) error {
	gvk := s.kind.GVK()
	// The controller of the kind has the same one.
	informer, err := s.op.GetCache().GetInformer(ctx, s.kind.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	stop := s.series.Show(func() []metrics.Resource {
		if !informer.HasSynced() {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, scrapePatience)
		defer cancel()
		found, err := s.list(ctx)
		if err != nil {
			ctrl.Log.Error(err, "the metrics of this scrape lack a kind", "kind", gvk.Kind)
		}
		return found
	})
	defer stop()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection is false: see show.
func (*show[T, W]) NeedLeaderElection() bool { return false }

// list returns the resources that the cache has. It copies none of them.
func (s *show[T, W]) list(ctx context.Context) (found []metrics.Resource, err error) {
	gvk := s.kind.GVK()
	object, err := s.op.GetScheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	list, ok := object.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("list %s: %T is no list", gvk.Kind, object)
	}
	if err := s.op.GetCache().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		resource, ok := item.(T)
		if !ok {
			return fmt.Errorf("list %s: an item is a %T", gvk.Kind, item)
		}
		is := s.kind.Summary(resource)
		found = append(found, metrics.Resource{
			Namespace: resource.GetNamespace(), Name: resource.GetName(), Phase: is.Phase, Generation: resource.GetGeneration(),
			Observed: is.Generation, Paused: s.kind.Paused(resource), Step: is.Doing.Step, Conditions: is.Conditions, Parts: is.Parts, Members: is.Members, Backups: is.Backups, Claims: is.Claims,
		})
		return nil
	})
	return found, err
}

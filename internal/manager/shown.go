// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/reconcile"
)

// scrapePatience limits the wait of a scrape for the cache. A scrape does not wait if the cache is synced.
const scrapePatience = time.Second

// show provides the cached resources of a kind to the metrics while the operator runs. It also runs on standbys, so that no series ends
// when the leader changes.
type show[T client.Object, O any] struct {
	op     *Operator
	kind   reconcile.Kind[T, O]
	series *metrics.Series
}

// Start provides the resources until the operator ends.
func (s *show[T, O]) Start(ctx context.Context) error {
	gvk := s.kind.GVK()
	// The controller of the kind uses the same informer.
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
			ctrl.Log.Error(err, "this scrape has no metrics of a kind", "kind", gvk.Kind)
		}
		return found
	})
	defer stop()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection returns false: see show.
func (*show[T, O]) NeedLeaderElection() bool { return false }

// list returns the cached resources without copying them.
func (s *show[T, O]) list(ctx context.Context) (found []metrics.Resource, err error) {
	err = reconcile.EachListed(ctx, s.op.GetCache(), s.op.GetScheme(), s.kind.GVK(), func(resource T) {
		is := s.kind.Summary(resource)
		found = append(found, metrics.Resource{
			Namespace: resource.GetNamespace(), Name: resource.GetName(), Phase: is.Phase, Generation: resource.GetGeneration(),
			Observed: is.Generation, Paused: s.kind.Paused(resource), Step: is.Doing.Step, Conditions: is.Conditions, Parts: is.Parts, Members: is.Members, Backups: is.Backups, Claims: is.Claims,
		})
	})
	return found, err
}

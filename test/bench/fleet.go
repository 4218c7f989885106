// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// label marks the namespaces of the benchmark.
	label = "d3os-bench"
	// alone is the namespace of a DataService that is the only one.
	alone = label + "-one"
	// requestsAtOnce is how many requests the benchmark sends at once to set up and clean up.
	requestsAtOnce = 16
)

// one returns the sample, in the namespace for one alone.
func (b *bench) one(ctx context.Context) (*dsv1.DataService, error) {
	ds := b.sample.DeepCopy()
	ds.Namespace = alone
	return ds, b.makeNamespaces(ctx, alone)
}

// many returns DataServices number from to to, each in a namespace of its own that it makes.
// They have no node ports, which a cluster has only once.
func (b *bench) many(ctx context.Context, from, to int) ([]*dsv1.DataService, error) {
	var services []*dsv1.DataService
	var names []string
	for i := from; i < to; i++ {
		ds := b.sample.DeepCopy()
		ds.Namespace = fmt.Sprintf("%s-%04d", label, i)
		ds.Spec.Web.NodePort = nil
		services, names = append(services, ds), append(names, ds.Namespace)
	}
	return services, b.makeNamespaces(ctx, names...)
}

// create creates DataServices, several at once.
func (b *bench) create(ctx context.Context, services ...*dsv1.DataService) error {
	return inParallel(services, func(ds *dsv1.DataService) error { return b.client.Create(ctx, ds) })
}

// grow makes the fleet that large with the operator that runs, and waits until it is Ready.
func (b *bench) grow(ctx context.Context, to int) error {
	if len(b.fleet) >= to {
		return nil
	}
	services, err := b.many(ctx, len(b.fleet), to)
	if err != nil {
		return err
	}
	if err := b.create(ctx, services...); err != nil {
		return err
	}
	b.fleet = append(b.fleet, services...)
	return b.awaitReady(ctx, services...)
}

// awaitReady waits until the status says of these DataServices, as last written by the
// caller or later, that they are ready.
func (b *bench) awaitReady(ctx context.Context, services ...*dsv1.DataService) error {
	waiting := services
	return b.services.await(ctx, func(objects map[string]client.Object) string {
		var left []*dsv1.DataService
		for _, ds := range waiting {
			live, ok := objects[key(dsv1.Kind, ds.Namespace, ds.Name)].(*dsv1.DataService)
			if !ok || live.UID != ds.UID || harness.IsReady(live, max(ds.Generation, live.Generation)) != nil {
				left = append(left, ds)
			}
		}
		if waiting = left; len(left) == 0 {
			return ""
		}
		live, _ := objects[key(dsv1.Kind, left[0].Namespace, left[0].Name)].(*dsv1.DataService)
		if live == nil {
			live = left[0]
		}
		return fmt.Sprintf("%d DataServices are not Ready; %s is %s: %s", len(left), left[0].Namespace, live.Status.Phase, live.Status.Message)
	})
}

// makeNamespaces creates namespaces and waits until pods can be created in them.
func (b *bench) makeNamespaces(ctx context.Context, names ...string) error {
	err := inParallel(names, func(name string) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
		return client.IgnoreAlreadyExists(b.client.Create(ctx, ns))
	})
	if err != nil {
		return err
	}
	return b.accounts.await(ctx, func(objects map[string]client.Object) string {
		for _, name := range names {
			if objects[key("ServiceAccount", name, "default")] == nil {
				return "no default service account in namespace " + name
			}
		}
		return ""
	})
}

// removeOne removes a DataService with all that it had, data and pods included, and waits
// until it is gone. That is faster than to remove its namespace.
func (b *bench) removeOne(ctx context.Context, ds *dsv1.DataService) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	left, err := b.track(ctx, ds.Namespace)
	if err != nil {
		return err
	}
	if err := client.IgnoreNotFound(b.client.Delete(ctx, ds.DeepCopy())); err != nil {
		return err
	}
	for _, retained := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.Secret{}, &corev1.ConfigMap{}} {
		if err := b.client.DeleteAllOf(ctx, retained, client.InNamespace(ds.Namespace), client.MatchingLabelsSelector{Selector: managed}); err != nil {
			return err
		}
	}
	return left.awaitNone(ctx, nil)
}

// removeAll removes every namespace of the benchmark and waits until it is gone. No operator
// may run meanwhile: it would put back what goes.
func (b *bench) removeAll(ctx context.Context) error {
	b.fleet = nil
	if err := b.deleteNamespaces(ctx); err != nil {
		return err
	}
	if err := b.spaces.awaitNone(ctx, nil); err != nil {
		return err
	}
	return b.services.awaitNone(ctx, func(ds client.Object) bool { return !isMine(ds.GetNamespace()) })
}

func (b *bench) deleteNamespaces(ctx context.Context) error {
	list := &corev1.NamespaceList{}
	if err := b.client.List(ctx, list, client.HasLabels{label}); err != nil {
		return fmt.Errorf("list the benchmark's namespaces: %w", err)
	}
	return inParallel(list.Items, func(ns corev1.Namespace) error {
		return client.IgnoreNotFound(b.client.Delete(ctx, &ns))
	})
}

func isMine(namespace string) bool {
	return len(namespace) > len(label) && namespace[:len(label)+1] == label+"-"
}

// managed selects what the operator manages.
var managed = labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy})

// track watches what belongs to DataServices of a namespace: the operator's objects, volumes
// and pods.
func (b *bench) track(ctx context.Context, namespace string) (*tracker, error) {
	options := cache.Options{
		Scheme: b.scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}, ByObject: map[client.Object]cache.ByObject{},
	} // an empty namespace is all of them
	kinds := map[string]client.Object{}
	for _, gvk := range append(slices.Clone(object.Kinds), corev1.SchemeGroupVersion.WithKind("Pod")) {
		empty := &metav1.PartialObjectMetadata{}
		empty.SetGroupVersionKind(gvk)
		kinds[gvk.Kind] = empty
		options.ByObject[empty] = cache.ByObject{Label: managed}
	}
	return startTracker(ctx, b.config(), options, kinds)
}

// inParallel calls do for each item, several at once.
func inParallel[T any](items []T, do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	for _, item := range items {
		group.Go(func() error { return do(item) })
	}
	return group.Wait()
}

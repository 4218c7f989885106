// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// label marks the namespaces of the benchmark.
	label = "d3os-bench"
	// alone is the namespace of the DataService in sections with only one DataService.
	alone = label + "-one"
	// requestsAtOnce limits the concurrent requests of the benchmark for setup and cleanup.
	requestsAtOnce = 16
)

// one returns the sample in the namespace that the constant alone names. The namespace contains no other DataService.
func (b *bench) one(ctx context.Context) (*dsv1.DataService, error) {
	ds := b.sample.DeepCopy()
	ds.Namespace = alone
	return ds, b.makeNamespaces(ctx, alone)
}

// many returns the DataServices with numbers in the range [from, to), each in a new namespace. They have no node ports, because a
// cluster can use a node port only once.
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

// create creates DataServices, several in parallel.
func (b *bench) create(ctx context.Context, services ...*dsv1.DataService) error {
	return inParallel(services, func(ds *dsv1.DataService) error { return b.client.Create(ctx, ds) })
}

// awaitReady waits until these DataServices are ready in the generation of the given objects.
func (b *bench) awaitReady(ctx context.Context, services ...*dsv1.DataService) error {
	return b.awaitStatus(ctx, harness.IsReady, services...)
}

// awaitStatus waits until missing returns nil for each of these DataServices, in the generation of the given objects.
func (b *bench) awaitStatus(
	ctx context.Context, missing func(*dsv1.DataService, int64) error, services ...*dsv1.DataService,
) error {
	waiting := slices.Clone(services)
	return b.services.await(ctx, func(objects map[string]client.Object) (lacks error) {
		waiting = slices.DeleteFunc(waiting, func(ds *dsv1.DataService) bool {
			live, _ := objects[key(dsv1.Kind, ds.Namespace, ds.Name)].(*dsv1.DataService)
			if live != nil && live.UID != ds.UID {
				live = nil
			}
			err := missing(live, ds.Generation)
			if err != nil {
				lacks = fmt.Errorf("namespace %s: %w", ds.Namespace, err)
			}
			return err == nil
		})
		if lacks != nil {
			return fmt.Errorf("wait for %d of %d DataServices: %w", len(waiting), len(services), lacks)
		}
		return nil
	})
}

// makeNamespaces creates namespaces, each with the service account that pods need. Kubernetes would create the account only after a delay.
func (b *bench) makeNamespaces(ctx context.Context, names ...string) error {
	return inParallel(names, func(name string) error {
		for _, object := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}},
		} {
			if err := client.IgnoreAlreadyExists(b.client.Create(ctx, object)); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeOne removes a DataService with all its objects, data and pods, and waits until they are deleted. It keeps the namespace, because
// the deletion of a namespace takes longer.
func (b *bench) removeOne(ctx context.Context, ds *dsv1.DataService) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	left, err := b.trackOwned(ctx, ds.Namespace)
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
	return left.awaitNone(ctx, func(client.Object) bool { return false })
}

// removeAll deletes every namespace of the benchmark and waits until it is deleted. It runs before each section. No operator may run at
// that time, because an operator would restore the objects.
func (b *bench) removeAll(ctx context.Context) error {
	b.fleet = nil
	if err := b.deleteNamespaces(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, waitAtMost, true, func(ctx context.Context) (bool, error) {
		left := &corev1.NamespaceList{}
		err := b.client.List(ctx, left, client.HasLabels{label})
		return len(left.Items) == 0, err
	})
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

// managed selects the objects of the operator.
var managed = labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy})

// trackOwned watches the objects, volumes and pods of DataServices in a namespace, or in all namespaces if namespace is empty.
func (b *bench) trackOwned(ctx context.Context, namespace string) (*tracker, error) {
	options := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultLabelSelector: managed}
	var kinds []client.Object
	for _, gvk := range append(slices.Clone(object.Kinds), corev1.SchemeGroupVersion.WithKind("Pod")) {
		empty := &metav1.PartialObjectMetadata{}
		empty.SetGroupVersionKind(gvk)
		kinds = append(kinds, empty)
	}
	return b.track(ctx, options, kinds...)
}

// inParallel calls do for each item, several calls in parallel.
func inParallel[T any](items []T, do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	for _, item := range items {
		group.Go(func() error { return do(item) })
	}
	return group.Wait()
}

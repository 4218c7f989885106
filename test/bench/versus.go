// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

// versus does the same with the operator and with the Helm operator of the Operator SDK, over the
// same charts and values, one after the other and each as a process of its own: create, change one
// image of each, restart.
type versus struct{}

// contestant is one of the two.
type contestant struct {
	name   string
	start  func(ctx context.Context) (*process, error)
	create func(ctx context.Context, services []*dsv1.DataService) error
	change func(ctx context.Context, services []*dsv1.DataService, image string) error
}

func (v versus) run(ctx context.Context, b *bench) error {
	options, err := manager.ParseOptions(nil)
	if err != nil {
		return err
	}
	renderer, err := render.New(b.version)
	if err != nil {
		return err
	}
	crd, err := b.installHelmCRD()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "d3os-bench-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	chart := filepath.Join(folder, "platform")
	if err := writeUmbrella(b.sample, chart); err != nil {
		return err
	}
	platforms := map[string]*unstructured.Unstructured{}
	t := b.report.table("WHO", "EVENT", "SECONDS", "READS EACH", "WRITES EACH", "CPU ms EACH", "RSS MiB", "PEAK RSS MiB")
	for _, c := range []*contestant{
		{
			name:   "operator",
			start:  func(ctx context.Context) (*process, error) { return b.startProcess(ctx) },
			create: func(ctx context.Context, services []*dsv1.DataService) error { return b.create(ctx, services...) },
			change: func(ctx context.Context, services []*dsv1.DataService, tag string) error {
				return inParallel(services, func(ds *dsv1.DataService) error { return b.patchImage(ctx, ds, tag) })
			},
		},
		{
			name: "Helm operator",
			start: func(ctx context.Context) (*process, error) {
				return b.startHelm(ctx, chart, options.MaxConcurrentReconciles)
			},
			create: func(ctx context.Context, services []*dsv1.DataService) error {
				for _, ds := range services {
					obj, err := platform(ds)
					if err != nil {
						return err
					}
					platforms[ds.Namespace] = obj
				}
				return inParallel(services, func(ds *dsv1.DataService) error { return b.client.Create(ctx, platforms[ds.Namespace]) })
			},
			change: func(ctx context.Context, services []*dsv1.DataService, tag string) error {
				return inParallel(services, func(ds *dsv1.DataService) error {
					return b.setImage(ctx, platforms[ds.Namespace], "registry.example.com/auth:"+tag)
				})
			},
		},
	} {
		if err := b.removeAll(ctx); err != nil {
			return err
		}
		if err := v.measure(ctx, b, renderer, c, t); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for _, obj := range platforms { // nobody is left who would take its finalizer away
		if err := b.release(ctx, obj); err != nil {
			return err
		}
	}
	t.flush()
	b.report.note("\nUntil all pods are ready, and after that until nothing is sent for a second. Requests are counted by the processes: reads")
	b.report.note("with the cache's lists and watches, writes with events. Restart: until everything has been looked at. %d workers each.", options.MaxConcurrentReconciles)
	return errors.Join(b.removeAll(ctx), envtest.UninstallCRDs(b.config(), envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}))
}

// release lets a resource of the Helm operator go without it.
func (b *bench) release(ctx context.Context, obj *unstructured.Unstructured) error {
	none := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(b.client.Patch(ctx, obj.DeepCopy(), none))
}

// measure lets one of the two work.
func (v versus) measure(ctx context.Context, b *bench, renderer *render.Renderer, c *contestant, t *table) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.trackWorkloads(ctx)
	if err != nil {
		return err
	}
	p, err := c.start(ctx)
	if err != nil {
		return err
	}
	row := func(event string, s step) {
		b.report.progress("%s: %s: %s s", c.name, event, number(s.took.Seconds()))
		reads, writes := 0.0, 0.0
		for method, n := range s.used.requests {
			if method == "GET" {
				reads += n
			} else {
				writes += n
			}
		}
		t.row(c.name, event, number(s.took.Seconds()), number(s.each(reads)), number(s.each(writes)), number(1000*s.each(s.used.cpu)),
			number(s.used.rss), number(s.used.peak))
	}
	from := 0
	for _, n := range b.versus {
		services, err := b.many(ctx, from, from+n) // beside those that are there
		if err != nil {
			return errors.Join(err, p.stop())
		}
		from += n
		var names []string
		for _, ds := range services {
			of, err := b.workloads(renderer, ds)
			if err != nil {
				return errors.Join(err, p.stop())
			}
			names = append(names, of...)
		}
		tag := fmt.Sprintf("versus-%d", n)
		for _, event := range []struct {
			what, tag string // the image's, where it is known
			do        func() error
		}{
			{"create", "", func() error { return c.create(ctx, services) }},
			{"change one image", tag, func() error { return c.change(ctx, services, tag) }},
		} {
			s, err := p.settle(ctx, n, func() error {
				return errors.Join(event.do(), seen.awaitSettled(ctx, names, event.tag))
			})
			if err != nil {
				return errors.Join(fmt.Errorf("%s %d: %w", event.what, n, err), p.stop())
			}
			row(fmt.Sprintf("%s, %d", event.what, n), s)
		}
	}
	if err := p.stop(); err != nil {
		return err
	}
	if p, err = c.start(ctx); err != nil {
		return err
	}
	err = p.awaitReconciles(ctx, from)
	s := step{services: from, took: time.Since(p.began)}
	if err == nil {
		s.used, err = p.usage(ctx)
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	row(fmt.Sprintf("restart beside %d", from), s)
	return nil
}

// trackWorkloads watches the workloads of all DataServices, whoever made them.
func (b *bench) trackWorkloads(ctx context.Context) (*tracker, error) {
	options := cache.Options{Scheme: b.scheme, ByObject: map[client.Object]cache.ByObject{}}
	kinds := map[string]client.Object{}
	for _, gvk := range object.Kinds {
		if gvk.Group == "apps" {
			empty := object.Empty(gvk)
			kinds[gvk.Kind] = empty
			options.ByObject[empty] = cache.ByObject{Label: managed}
		}
	}
	return startTracker(ctx, b.config(), options, kinds)
}

// awaitSettled waits until workloads are rolled out, the victim of each DataService with an image,
// where one is given.
func (t *tracker) awaitSettled(ctx context.Context, names []string, tag string) error {
	waiting := names
	return t.await(ctx, func(objects map[string]client.Object) string {
		var left []string
		for _, name := range waiting {
			live, ok := objects[name].(*unstructured.Unstructured)
			if !ok || !hasTag(live, tag) || !health.Of([]*unstructured.Unstructured{live}, nil).Settled {
				left = append(left, name)
			}
		}
		if waiting = left; len(left) == 0 {
			return ""
		}
		return fmt.Sprintf("%d workloads are not ready, such as %s", len(left), left[0])
	})
}

// hasTag tells whether a workload, if it is a victim, has an image with a tag, if one is given.
func hasTag(live *unstructured.Unstructured, tag string) bool {
	return tag == "" || live.GetName() != victim || strings.HasSuffix(imageOf(live), ":"+tag)
}

func imageOf(deployment *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if m, ok := c.(map[string]any); ok && m["name"] == victim {
			image, _ := m["image"].(string)
			return image
		}
	}
	return ""
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
)

const (
	// tenantsNamespace is the namespace of the large RedisClusters.
	tenantsNamespace = label + "-tenants"
	// tenantsMemory bounds the operator's peak memory in MiB while large resources exist.
	tenantsMemory = 512
	// smallName is the name of each small DataService, and of the only service in it.
	smallName = "small"
	// templateBytes is the size of the podTemplate of a large RedisCluster.
	templateBytes = 3300
)

// tenants measures the time in which the operator restores the Service of a small DataService while it plans large RedisClusters of other
// users. The pods of the RedisClusters are never scheduled: the section measures the operator, and not the scheduler.
type tenants struct{}

func (s tenants) run(ctx context.Context, b *bench) error {
	small, err := b.smallOnes(ctx)
	if err != nil {
		return err
	}
	large, err := b.largeOnes(ctx)
	if err != nil {
		return err
	}
	return b.measured(ctx, func(ctx context.Context, o *operator) error {
		if err := b.create(ctx, small...); err != nil {
			return err
		}
		if err := b.awaitReady(ctx, small...); err != nil {
			return err
		}
		owned, err := b.trackOwned(ctx, "")
		if err != nil {
			return err
		}
		t := b.report.spreads("A SERVICE OF A SMALL DATASERVICE, DELETED", "TO")
		memories := b.report.usages("BESIDE LARGE ONES")
		defer func() { t.flush(); b.report.note(""); memories.flush() }() // prints the measurements also after an error
		for _, phase := range []struct {
			name string
			do   func(*redisv1.RedisCluster) error
		}{
			{"while large ones are created", func(rc *redisv1.RedisCluster) error { return b.client.Create(ctx, rc) }},
			{"while large ones are changed", func(rc *redisv1.RedisCluster) error { return b.changeLarge(ctx, rc) }},
		} {
			took, err := s.whileLargeChange(ctx, b, owned, small, large, phase.do)
			if err != nil {
				return fmt.Errorf("%s: %w", phase.name, err)
			}
			t.add(phase.name, "a watch sees it again", took, atMost(healMilliseconds))
			u, err := o.usage(ctx)
			if err != nil {
				return err
			}
			memories.add(phase.name, u, atMost(tenantsMemory))
		}
		return nil
	})
}

// smallOnes returns the small DataServices: one service each.
func (b *bench) smallOnes(ctx context.Context) (services []*dsv1.DataService, err error) {
	var names []string
	for i := range b.small {
		ds, err := plan.Parse([]byte(`{apiVersion: d3os-product.com.d3os/v1, kind: DataService, metadata: {name: ` + smallName + `},
			spec: {additionalServices: [{name: ` + smallName + `, image: registry.example.com/small, port: 8080}]}}`))
		if err != nil {
			return nil, err
		}
		ds.Namespace = fmt.Sprintf("%s-%04d", label, i)
		services, names = append(services, ds), append(names, ds.Namespace)
	}
	return services, b.makeNamespaces(ctx, names...)
}

// largeOnes returns the large RedisClusters, which do not exist yet.
func (b *bench) largeOnes(ctx context.Context) (clusters []*redisv1.RedisCluster, err error) {
	for i := range b.large {
		rc := &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantsNamespace, Name: fmt.Sprintf("large-%02d", i)},
			Spec:       redisv1.RedisClusterSpec{Replicas: ptr.To(int32(b.pods)), Repository: "redis", PodTemplate: &redisv1.Object{}},
		}
		rc.Spec.PodTemplate.Raw = largeTemplate("x")
		clusters = append(clusters, rc)
	}
	return clusters, b.makeNamespaces(ctx, tenantsNamespace)
}

// largeTemplate returns the podTemplate of a large RedisCluster, padded with a letter. Its pods fit on no node.
func largeTemplate(letter string) []byte {
	return fmt.Appendf(nil, `{"metadata": {"annotations": {"example.com/text": %q}}, "spec": {"nodeSelector": {"example.com/node": "none"}}}`, strings.Repeat(letter, templateBytes))
}

// changeLarge changes the podTemplate of a large RedisCluster, so that the operator plans all its StatefulSets again.
func (b *bench) changeLarge(ctx context.Context, rc *redisv1.RedisCluster) error {
	before := rc.DeepCopy()
	rc.Spec.PodTemplate.Raw = largeTemplate("y")
	return b.client.Patch(ctx, rc, client.MergeFrom(before))
}

// whileLargeChange calls do for all large RedisClusters at once. Until the operator has written all their StatefulSets, whileLargeChange
// deletes Services of small DataServices one after the other, at least reactions times. It returns the time until each Service existed
// again.
func (tenants) whileLargeChange(ctx context.Context, b *bench, owned *tracker, small []*dsv1.DataService, large []*redisv1.RedisCluster, do func(*redisv1.RedisCluster) error) (took []time.Duration, err error) {
	seen, err := b.track(ctx, cache.Options{}, &redisv1.RedisCluster{})
	if err != nil {
		return nil, err
	}
	if err := inParallel(large, do); err != nil {
		return nil, err
	}
	isDone := make(chan error, 1)
	go func() {
		isDone <- seen.await(ctx, func(objects map[string]client.Object) error {
			for _, rc := range large {
				live, _ := objects[key(redisv1.Kind, rc.Namespace, rc.Name)].(*redisv1.RedisCluster)
				if live == nil || live.Status.ObservedGeneration < rc.Generation {
					return fmt.Errorf("the status of RedisCluster %s is not of generation %d", rc.Name, rc.Generation)
				}
			}
			return nil
		})
	}()
	for i := 0; ; i++ {
		away, err := b.healService(ctx, owned, small[i%len(small)].Namespace)
		if err != nil {
			return took, err
		}
		took = append(took, away)
		select {
		case err = <-isDone:
			if err != nil || i+1 >= reactions {
				return took, err
			}
			isDone <- nil
		default:
		}
	}
}

// healService deletes the Service of a small DataService, and returns the time until a watch delivers a new Service.
func (b *bench) healService(ctx context.Context, owned *tracker, namespace string) (time.Duration, error) {
	service := &corev1.Service{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: smallName}, service); err != nil {
		return 0, err
	}
	if err := b.client.Delete(ctx, service); err != nil {
		return 0, err
	}
	begun := time.Now()
	err := owned.await(ctx, func(objects map[string]client.Object) error {
		again, ok := objects[key("Service", namespace, smallName)]
		if !ok || again.GetUID() == service.UID {
			return errors.New("the deleted Service of " + namespace + " is not back")
		}
		return nil
	})
	return time.Since(begun), err
}

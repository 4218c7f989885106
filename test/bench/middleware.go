// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

const (
	// middlewareNamespace is the namespace of the RedisClusters.
	middlewareNamespace = label + "-redis"
	// middlewareServices is the number of DataServices in this section, in addition to the clusters.
	middlewareServices = 100
	// middlewareRest is a duration in which an idle operator must neither read nor write an object, although it checks every server twice in this
	// time.
	middlewareRest = time.Minute
	// redisRecords bounds the writes of a cluster's record while the cluster forms. The operator records the newest epochs of the nodes
	// that it observes.
	redisRecords = 4
	// redisReads bounds the reads of one cluster while the cluster forms. A step reads its pods again before it changes
	// a server, to verify that they are still the pods that the decision was about.
	redisReads = 30
	// redisStatus bounds the status writes of one cluster while the cluster forms: as many as for a DataService, plus
	// one for each step and for each new pod, so that users see the progress.
	redisStatus = createStatus + 21
	// redisPods is the number of servers of a cluster.
	redisPods = 6
	// hangs limits the duration of a change of one cluster while all servers of another cluster hang.
	hangs = 10 * time.Second
)

// middleware counts the requests for RedisClusters with real servers, in addition to DataServices.
type middleware struct{}

// redisFleet holds RedisClusters of 6 pods, and the emulator of their pods.
type redisFleet struct {
	*bench
	pods *emulator.Emulator
	seen *tracker
	all  []*redisv1.RedisCluster
}

func (m middleware) run(ctx context.Context, b *bench) (err error) {
	f, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.pods.Stop()) }() //nolint:contextcheck // it also ends the leftovers of a cancelled run
	t := b.report.tallies()
	err = b.counted(ctx, func(ctx context.Context, o *operator) error {
		if err := m.create(ctx, o, f, t); err != nil {
			return err
		}
		rest, err := o.count(ctx, func() error { return pass(ctx, middlewareRest) })
		t.add(fmt.Sprintf("%s at rest", middlewareRest), rest, none)
		return err
	})
	if err != nil {
		return err
	}
	return b.counted(ctx, func(ctx context.Context, o *operator) error {
		for kind, n := range map[string]int{dsv1.Kind: len(b.fleet), redisv1.Kind: len(f.all)} {
			if err := o.journal.awaitLooks(ctx, kind, n, 1); err != nil {
				return err
			}
		}
		restart, err := o.tally(ctx)
		if err != nil {
			return err
		}
		t.add(fmt.Sprintf("operator restart, %d healthy", len(b.fleet)+len(f.all)), restart, none)
		t.flush()
		return m.hang(ctx, f)
	})
}

// pass waits for the given duration.
func pass(ctx context.Context, while time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(while):
		return nil
	}
}

// startRedis creates the namespace of the RedisClusters, and starts an emulator that runs real servers in the pods.
func (b *bench) startRedis(ctx context.Context) (*redisFleet, error) {
	f := &redisFleet{bench: b}
	server, err := redistest.Program("redis-server")
	if err != nil {
		return nil, err
	}
	cli, err := redistest.Program("redis-cli")
	if err != nil {
		return nil, err
	}
	if err := b.makeNamespaces(ctx, middlewareNamespace); err != nil {
		return nil, err
	}
	if f.seen, err = b.track(ctx, cache.Options{}, &redisv1.RedisCluster{}); err != nil {
		return nil, err
	}
	f.pods, err = emulator.Start(ctx, b.config(), emulator.Options{
		Namespace: middlewareNamespace, Nodes: 4,
		Images: map[string]emulator.Image{"redis": {Executables: map[string]string{"redis-server": server, "redis-cli": cli}}},
	})
	return f, err
}

// create creates all RedisClusters together and waits until they are ready.
func (middleware) create(ctx context.Context, o *operator, f *redisFleet, t *tallies) (err error) {
	if f.fleet, err = f.many(ctx, 0, middlewareServices); err != nil {
		return err
	}
	for i := range f.clusters {
		f.all = append(f.all, &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: middlewareNamespace, Name: fmt.Sprintf("cache-%02d", i)},
			Spec:       redisv1.RedisClusterSpec{Replicas: ptr.To[int32](redisPods), Repository: "redis"},
		})
	}
	var redis, all time.Duration
	seen, err := o.count(ctx, func() error {
		begun := time.Now()
		if err := f.create(ctx, f.fleet...); err != nil {
			return err
		}
		if err := inParallel(f.all, func(rc *redisv1.RedisCluster) error { return f.client.Create(ctx, rc) }); err != nil {
			return err
		}
		if err := f.awaitRedis(ctx, f.all...); err != nil {
			return err
		}
		redis = time.Since(begun)
		err := f.awaitReady(ctx, f.fleet...)
		all = time.Since(begun)
		return err
	})
	if err != nil {
		return err
	}
	ofRedis := func(r harness.Sent) bool { return r.Namespace == middlewareNamespace }
	clusters, services := o.traffic.tally(ofRedis), o.traffic.tally(func(r harness.Sent) bool { return !ofRedis(r) })
	services.looks, services.errors = seen.looks, seen.errors
	objects := sets.New[string]()
	for _, r := range o.traffic.Since(o.traffic.from, ofRedis) {
		if classOf(r) == objectWrite {
			objects.Insert(r.Resource + "/" + r.Name)
		}
	}
	n, k := len(f.fleet), len(f.all)
	t.add(fmt.Sprintf("create %d DataServices", n), services,
		bounds{exactly(n * (f.objects + historyWrites)), atMost(float64(n * createStatus)), atMost(float64(n * createReads))})
	t.add(fmt.Sprintf("create %d RedisClusters", k), clusters,
		bounds{atMost(float64(objects.Len() + k*redisRecords)), atMost(float64(k * redisStatus)), atMost(float64(k * redisReads))})
	f.report.note("All were ready after %s s; the RedisClusters after %s s.\n", number(all.Seconds()), number(redis.Seconds()))
	return nil
}

// awaitRedis waits until these RedisClusters are ready in their last written generations.
func (f *redisFleet) awaitRedis(ctx context.Context, clusters ...*redisv1.RedisCluster) error {
	return f.seen.await(ctx, func(objects map[string]client.Object) error {
		for _, rc := range clusters {
			live, _ := objects[key(redisv1.Kind, rc.Namespace, rc.Name)].(*redisv1.RedisCluster)
			if live == nil || live.Generation < rc.Generation {
				return fmt.Errorf("RedisCluster %s has no generation %d", rc.Name, rc.Generation)
			}
			if live.Status.ObservedGeneration != live.Generation || !meta.IsStatusConditionTrue(live.Status.Conditions, redisv1.ConditionReady) {
				return fmt.Errorf("RedisCluster %s is %s: %s", rc.Name, live.Status.Phase, live.Status.Message)
			}
		}
		return nil
	})
}

// hang suspends all servers of one cluster (SIGSTOP). It measures the duration of changes of the other clusters and of DataServices.
func (middleware) hang(ctx context.Context, f *redisFleet) error {
	first := f.all[0].Name
	for shard := range redisPods / 2 {
		for pod := range 2 {
			if err := f.pods.Kill(fmt.Sprintf("%s-%d-%d", first, shard, pod), syscall.SIGSTOP, "redis"); err != nil {
				return err
			}
		}
	}
	err := f.seen.await(ctx, func(objects map[string]client.Object) error {
		live, _ := objects[key(redisv1.Kind, middlewareNamespace, first)].(*redisv1.RedisCluster)
		if live == nil || live.Status.Verdict != "Unknown" {
			return errors.New("the status does not report that the servers of " + first + " hang")
		}
		return nil
	})
	if err != nil {
		return err
	}
	table := f.report.spreads("BESIDE A CLUSTER WHOSE SERVERS HANG", "")
	for what, change := range map[string]func(i int) error{
		"a setting of a RedisCluster": func(i int) error { return f.resize(ctx, f.all[i]) },
		"an image of a DataService":   func(i int) error { return f.changeImage(ctx, f.fleet[i], "hang") },
	} {
		var took []time.Duration
		for i := 1; i < min(len(f.all), len(f.fleet), reactions); i++ {
			begun := time.Now()
			if err := change(i); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			took = append(took, time.Since(begun))
		}
		table.add(what, "carried out", took, atMost(milliseconds(hangs)))
	}
	table.flush()
	return nil
}

// resize changes a setting that running servers accept, and waits until all servers have it.
func (f *redisFleet) resize(ctx context.Context, rc *redisv1.RedisCluster) error {
	before := rc.DeepCopy()
	rc.Spec.Config = map[string]redisv1.Setting{"maxmemory-policy": "allkeys-lru"}
	if err := f.client.Patch(ctx, rc, client.MergeFrom(before)); err != nil {
		return err
	}
	return f.awaitRedis(ctx, rc)
}

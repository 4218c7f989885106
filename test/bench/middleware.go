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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/redis/rig"
)

const (
	// middlewareNamespace is where the RedisClusters are.
	middlewareNamespace = label + "-redis"
	// middlewareServices is how many DataServices there are beside them.
	middlewareServices = 100
	// middlewareRest is how long nothing may be asked of the API server: two looks at every server.
	middlewareRest = time.Minute
	// redisRecords is how often the record of a cluster is written while it forms.
	redisRecords = 2
	// redisStatus bounds the status writes of one cluster while it forms: those of a DataService, and one for each step and
	// each pod that comes, which people watch.
	redisStatus = createStatus + 21
	// redisPods is how many servers a cluster has.
	redisPods = 6
	// hangs is how long a change of one cluster may take beside one whose servers all hang.
	hangs = 10 * time.Second
)

// middleware counts what RedisClusters with real servers cost beside DataServices.
type middleware struct{}

// redisFleet is RedisClusters of 6, and what runs their pods.
type redisFleet struct {
	*bench
	pods *emulator.Emulator
	seen *tracker
	all  []*redisv1.RedisCluster
}

func (m middleware) run(ctx context.Context, b *bench) (err error) {
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	f, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.pods.Stop()) }() //nolint:contextcheck // it ends also what a cancelled run has left
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return err
	}
	t := b.report.tallies()
	begun := time.Now()
	created, took, err := m.create(ctx, o, f)
	if err != nil {
		return errors.Join(err, o.stop())
	}
	services, clusters := f.split(o, created)
	n, k := len(b.fleet), len(f.all)
	t.add(fmt.Sprintf("create %d DataServices", n), services,
		bounds{exactly(n * (b.objects + historyWrites)), atMost(float64(n * createStatus)), atMost(float64(n * createReads))})
	t.add(fmt.Sprintf("create %d RedisClusters", k), clusters,
		bounds{atMost(float64(f.objects(o) + k*redisRecords)), atMost(float64(k * redisStatus)), atMost(float64(k * createReads))})
	rest, err := o.count(ctx, func() error { return pass(ctx, middlewareRest) })
	if err = errors.Join(err, o.stop()); err != nil {
		return err
	}
	t.add(fmt.Sprintf("%s at rest", middlewareRest), rest, none)
	if o, err = b.startOperator(ctx, nil); err != nil {
		return err
	}
	if err = b.journal.awaitLooks(ctx, n+k); err != nil {
		return errors.Join(err, o.stop())
	}
	restart, err := o.tally(ctx)
	if err != nil {
		return errors.Join(err, o.stop())
	}
	t.add(fmt.Sprintf("operator restart, %d healthy", n+k), restart, none)
	t.flush()
	b.report.note("\nAll were ready after %s s; the RedisClusters after %s s.", number(time.Since(begun).Seconds()), number(took.Seconds()))
	return errors.Join(m.hang(ctx, f), o.stop())
}

// pass lets time pass, which is what is measured at rest.
func pass(ctx context.Context, while time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(while):
		return nil
	}
}

// startRedis makes the namespace of the RedisClusters, whose pods run real servers.
func (b *bench) startRedis(ctx context.Context) (*redisFleet, error) {
	f := &redisFleet{bench: b}
	server, err := rig.Program("redis-server")
	if err != nil {
		return nil, err
	}
	cli, err := rig.Program("redis-cli")
	if err != nil {
		return nil, err
	}
	if err := b.makeNamespaces(ctx, middlewareNamespace); err != nil {
		return nil, err
	}
	rc := &redisv1.RedisCluster{}
	f.seen, err = startTracker(ctx, b.config(), cache.Options{Scheme: b.scheme}, map[string]client.Object{redisv1.Kind: rc})
	if err != nil {
		return nil, err
	}
	f.pods, err = emulator.Start(ctx, b.config(), emulator.Options{
		Namespace: middlewareNamespace, Nodes: 4,
		Images: map[string]emulator.Image{"redis": {Executables: map[string]string{"redis-server": server, "redis-cli": cli}}},
	})
	return f, err
}

// create declares all at once and waits until all are ready; took is the time of the RedisClusters.
func (m middleware) create(ctx context.Context, o *operator, f *redisFleet) (all tally, took time.Duration, err error) {
	services, err := f.many(ctx, 0, middlewareServices)
	if err != nil {
		return all, 0, err
	}
	for i := range f.clusters {
		f.all = append(f.all, &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: middlewareNamespace, Name: fmt.Sprintf("cache-%02d", i)},
			Spec:       redisv1.RedisClusterSpec{Replicas: redisPods, Repository: "redis"},
		})
	}
	all, err = o.count(ctx, func() error {
		begun := time.Now()
		if err := f.create(ctx, services...); err != nil {
			return err
		}
		if err := inParallel(f.all, func(rc *redisv1.RedisCluster) error { return f.client.Create(ctx, rc) }); err != nil {
			return err
		}
		if err := f.awaitRedis(ctx, f.all...); err != nil {
			return err
		}
		took = time.Since(begun)
		return f.awaitReady(ctx, services...)
	})
	f.fleet = services
	return all, took, err
}

// awaitRedis waits until these RedisClusters, as last written, are ready.
func (f *redisFleet) awaitRedis(ctx context.Context, clusters ...*redisv1.RedisCluster) error {
	return f.seen.await(ctx, func(objects map[string]client.Object) string {
		for _, rc := range clusters {
			live, _ := objects[key(redisv1.Kind, rc.Namespace, rc.Name)].(*redisv1.RedisCluster)
			if live == nil || live.Generation < rc.Generation || live.Status.ObservedGeneration != live.Generation ||
				!meta.IsStatusConditionTrue(live.Status.Conditions, redisv1.ConditionReady) {
				if live == nil {
					live = rc
				}
				return fmt.Sprintf("RedisCluster %s is %s: %s", rc.Name, live.Status.Phase, live.Status.Message)
			}
		}
		return ""
	})
}

// split tells what was asked for RedisClusters from the rest.
func (f *redisFleet) split(o *operator, all tally) (services, clusters tally) {
	services, clusters = all, tally{errors: nil}
	for _, r := range o.traffic.all() {
		if r.Namespace != middlewareNamespace {
			continue
		}
		c := classOf(r)
		services.counts[c]--
		clusters.counts[c]++
		if c <= read {
			clusters.evidence = append(clusters.evidence, fmt.Sprintf("%s: %d", r.Request, r.Code))
		}
	}
	return services, clusters
}

// objects is how many objects of RedisClusters were written.
func (f *redisFleet) objects(o *operator) int {
	found := map[string]bool{}
	for _, r := range o.traffic.all() {
		if r.Namespace == middlewareNamespace && classOf(r) == objectWrite {
			found[r.Resource+"/"+r.Name] = true
		}
	}
	return len(found)
}

// hang stops all servers of one cluster, and takes the time of changes of the others and of DataServices.
func (middleware) hang(ctx context.Context, f *redisFleet) error {
	first := f.all[0].Name
	for shard := range redisPods / 2 {
		for pod := range 2 {
			if err := f.pods.Kill(fmt.Sprintf("%s-%d-%d", first, shard, pod), syscall.SIGSTOP, "redis"); err != nil {
				return err
			}
		}
	}
	err := f.seen.await(ctx, func(objects map[string]client.Object) string {
		live, _ := objects[key(redisv1.Kind, middlewareNamespace, first)].(*redisv1.RedisCluster)
		if live == nil || live.Status.Verdict != "Unknown" {
			return "nobody has noticed that the servers of " + first + " hang"
		}
		return ""
	})
	if err != nil {
		return err
	}
	table := f.report.table("BESIDE A CLUSTER WHOSE SERVERS HANG", "MEDIAN ms", "95% ms", "LONGEST ms", "BOUND")
	for _, change := range []struct {
		what string
		do   func(i int) error
	}{
		{"a setting of a RedisCluster", func(i int) error { return f.resize(ctx, f.all[i]) }},
		{"an image of a DataService", func(i int) error { return f.changeImage(ctx, f.fleet[i], "hang") }},
	} {
		var took []time.Duration
		for i := 1; i < min(len(f.all), len(f.fleet), reactions); i++ {
			begun := time.Now()
			if err := change.do(i); err != nil {
				return fmt.Errorf("%s: %w", change.what, err)
			}
			took = append(took, time.Since(begun))
		}
		longest := 0.0
		for _, d := range took {
			longest = max(longest, milliseconds(d))
		}
		cell, _ := f.report.check(change.what+" beside a cluster whose servers hang, longest ms", longest, atMost(milliseconds(hangs)))
		table.row(append(append([]string{change.what}, spread(took)...), cell)...)
	}
	table.flush()
	return nil
}

// resize changes a setting that servers take while they run, and waits until that is carried out.
func (f *redisFleet) resize(ctx context.Context, rc *redisv1.RedisCluster) error {
	before := rc.DeepCopy()
	rc.Spec.Config = map[string]redisv1.Setting{"maxmemory-policy": "allkeys-lru"}
	if err := f.client.Patch(ctx, rc, client.MergeFrom(before)); err != nil {
		return err
	}
	return f.awaitRedis(ctx, rc)
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/compat"
	"d3os.com/d3os-operator/internal/etcd"
	etcdserver "d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/upgradeable"
)

// New returns the operator for a cluster, with all of its kinds.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Operator, error) {
	op, err := NewWithoutKinds(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	originals, err := kube.AddOriginals(op, op.options.WatchNamespaces, op.lists, kube.Stoppable(op.stopped))
	if err != nil {
		return nil, err
	}
	op.applier.SeeOriginals(originals)
	seeClasses(ctx, op)
	platforms := platform.New(plan.NewPlanner(op.Renderer, o.Images), plan.NewKeeper(), op.Parts.Client, op.GetAPIReader(), originals)
	if err := awaitServed(ctx, op.GetRESTMapper(), platforms.GVK()); err != nil {
		return nil, err
	}
	if err := Register(ctx, op, platforms); err != nil {
		return nil, err
	}
	agent := o.Images[values.AgentImage]
	if agent == mysql.UnknownImage {
		agent = ""
	}
	if err := registerRedis(ctx, op, redis.Images{Redis: o.Images[redis.ImageName], Agent: agent, Namespace: o.Namespace}); err != nil {
		return nil, err
	}
	if err := registerBackups(ctx, op); err != nil {
		return nil, err
	}
	if err := registerEtcd(ctx, op, etcd.Images{Etcd: o.Images[etcd.ImageName], Agent: agent, Namespace: o.Namespace}); err != nil {
		return nil, err
	}
	if err := registerMySQL(ctx, op, cluster.Images{MySQL: o.Images[cluster.ImageName], Agent: agent, Namespace: o.Namespace}); err != nil {
		return nil, err
	}
	if err := registerCompat(op, agent); err != nil {
		return nil, err
	}
	if err := upgradeable.SetupWithManager(op, o.SkipNameValidation); err != nil {
		return nil, err
	}
	if err := setupRetention(op, op.Parts.Client, o.Version, o.SkipNameValidation); err != nil {
		return nil, err
	}
	return op, nil
}

// seeClasses makes an operator watch IngressClasses if it has the rights to them now. An operator with rights in some namespaces only may lack
// them. If the rights are removed later, the operator stays ready.
func seeClasses(ctx context.Context, op *Operator) {
	if !op.mayWatch(ctx, networkingv1.SchemeGroupVersion.WithKind("IngressClass")) {
		ctrl.Log.Info("the operator may not list and watch IngressClasses, so no status reports a missing IngressClass")
		return
	}
	op.lists.Optional(&networkingv1.IngressClass{})
	op.Parts.Engine.SeeClasses()
}

// registerRedis adds RedisClusters to an operator when their CRD is installed.
func registerRedis(ctx context.Context, op *Operator, images redis.Images) error {
	servers := server.New(op.options.Redis)
	closeAtEnd := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		servers.Close()
		return nil
	})
	if err := op.Add(closeAtEnd); err != nil {
		return fmt.Errorf("add the connections to Redis: %w", err)
	}
	return Register(ctx, op, redis.New(op.Renderer, images, servers, op.Parts.Client, op.GetAPIReader(), op.options.MinReady))
}

// registerBackups adds DataBackups and DataRestores to an operator when their CRDs are installed.
func registerBackups(ctx context.Context, op *Operator) error {
	if err := Register(ctx, op, backup.NewDataBackups(op.Parts.Client, op.GetAPIReader())); err != nil {
		return err
	}
	return Register(ctx, op, backup.NewDataRestores(op.Parts.Client, op.GetAPIReader()))
}

// registerEtcd adds EtcdClusters to an operator when their CRD is installed.
func registerEtcd(ctx context.Context, op *Operator, images etcd.Images) error {
	return Register(ctx, op, etcd.New(op.Renderer, images, etcdserver.New(op.options.Etcd), op.Parts.Client, op.GetAPIReader(), op.options.MinReady))
}

// registerMySQL adds MySQLClusters to an operator when their CRD is installed.
func registerMySQL(ctx context.Context, op *Operator, images cluster.Images) error {
	options := op.options.MySQL
	options.WellFor = op.options.MinReady
	return Register(ctx, op, cluster.New(op.Renderer, images, options, op.Parts.Client, op.GetAPIReader()))
}

// registerCompat adds AppServices, ModelBoxes and CronTabs to an operator when config/compat is installed.
func registerCompat(op *Operator, agent string) error {
	if err := registerOptional(op, compat.NewAppServices(op.Renderer, op.Parts.Client)); err != nil {
		return err
	}
	if err := registerOptional(op, compat.NewModelBoxes(op.Renderer, op.Parts.Client)); err != nil {
		return err
	}
	return registerOptional(op, compat.NewCronTabs(op.Renderer, op.Parts.Client, op.GetAPIReader(), agent))
}

// registerOptional makes an operator reconcile the resources of a kind when the API server serves the kind and allows the operator to watch
// it. The CRD alone is not sufficient, because another operator may have installed it. If the CRD and the rights are removed later, the
// operator stays ready.
func registerOptional[T client.Object, O any](op *Operator, kind reconcile.Kind[T, O]) error {
	op.lists.Optional(kind.New())
	waiter := &crdWaiter{
		mapper: op.GetRESTMapper(), gvk: kind.GVK(), poll: cmp.Or(op.options.OptionalPoll, optionalPoll),
		permitted: func(ctx context.Context) bool { return op.mayWatch(ctx, kind.GVK(), op.options.WatchNamespaces...) },
		start:     func(ctx context.Context) error { return control(ctx, op, kind) },
	}
	return op.Add(waiter)
}

// Register makes an operator reconcile the resources of a kind: from the operator's start, or from the time at which the API server serves
// the kind.
func Register[T client.Object, O any](ctx context.Context, op *Operator, kind reconcile.Kind[T, O]) error {
	return op.whenServed(ctx, kind.GVK(), func(ctx context.Context) error { return control(ctx, op, kind) })
}

// control starts the controller of a kind that the API server serves.
func control[T client.Object, O any](ctx context.Context, op *Operator, kind reconcile.Kind[T, O]) error {
	gvk := kind.GVK()
	op.definitions.add(gvk)
	series := metrics.SeriesOf(gvk.Kind)
	r := reconcile.NewReconciler(kind, series, op.Parts)
	err := r.SetupWithManager(op, reconcile.Options{
		MaxConcurrentReconciles: op.options.MaxConcurrentReconciles, SkipNameValidation: op.options.SkipNameValidation,
	})
	if err != nil {
		return fmt.Errorf("set up the controller of %s: %w", gvk.Kind, err)
	}
	if err := op.Add(&show[T, O]{op: op, kind: kind, series: series}); err != nil {
		return fmt.Errorf("show the metrics of %s: %w", gvk.Kind, err)
	}
	parent, ok := kind.(reconcile.Parent)
	if !ok {
		return nil
	}
	for _, child := range parent.Children() {
		err := op.whenServed(ctx, child, func(ctx context.Context) error {
			if err := kube.AddOwnerIndex(ctx, op.GetFieldIndexer(), child); err != nil {
				return err
			}
			if err := r.WatchChildren(op.GetCache(), child); err != nil {
				return err
			}
			op.applier.AddWatched(child)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// whenServed calls start when the API server serves a kind: immediately, or later while the operator runs.
func (op *Operator) whenServed(ctx context.Context, gvk schema.GroupVersionKind, start func(context.Context) error) error {
	if isServed(op.GetRESTMapper(), gvk) {
		return start(ctx)
	}
	waiter := &crdWaiter{mapper: op.GetRESTMapper(), gvk: gvk, poll: servedPoll, start: start}
	if object.IsUntyped(gvk) {
		waiter.wanted = op.applier.Wanted(gvk)
	}
	return op.Add(waiter)
}

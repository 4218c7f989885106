// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"d3os.com/d3os-operator/internal/controller"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/databackup"
	"d3os.com/d3os-operator/internal/kinds/datarestore"
	"d3os.com/d3os-operator/internal/kinds/dataservice"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster"
	etcdserver "d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/retained"
	"d3os.com/d3os-operator/internal/upgradeable"
)

// New returns the operator for the cluster of a configuration, with all of its kinds.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Operator, error) {
	op, err := NewWithoutKinds(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	originals, err := kube.AddOriginals(op, o.WatchNamespaces)
	if err != nil {
		return nil, err
	}
	op.applier.SeeOriginals(originals)
	platforms := dataservice.New(plan.NewPlanner(op.Renderer, o.Images), credentials.NewKeeper(), op.Parts.Client, op.GetAPIReader(), originals)
	if err := awaitServed(ctx, op.GetRESTMapper(), platforms.GVK()); err != nil {
		return nil, err
	}
	if err := Register(ctx, op, platforms); err != nil {
		return nil, err
	}
	agent := o.Images[values.AgentImage]
	if agent == guard.UnknownImage {
		agent = ""
	}
	if err := registerRedis(ctx, op, rediscluster.Images{Redis: o.Images[rediscluster.ImageName], Agent: agent, Namespace: o.Namespace}); err != nil {
		return nil, err
	}
	if err := registerBackups(ctx, op); err != nil {
		return nil, err
	}
	if err := registerEtcd(ctx, op, etcdcluster.Images{Etcd: o.Images[etcdcluster.ImageName], Agent: agent, Namespace: o.Namespace}); err != nil {
		return nil, err
	}
	if err := upgradeable.SetupWithManager(op, o.SkipNameValidation); err != nil {
		return nil, err
	}
	if err := retained.SetupWithManager(op, op.Parts.Client, o.Version, o.SkipNameValidation); err != nil {
		return nil, err
	}
	return op, nil
}

// registerRedis makes an operator carry out RedisClusters, once their CRD is installed.
func registerRedis(ctx context.Context, op *Operator, images rediscluster.Images) error {
	servers := server.New(op.options.Redis)
	closeAtEnd := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		servers.Close()
		return nil
	})
	if err := op.Add(closeAtEnd); err != nil {
		return fmt.Errorf("add the connections to Redis: %w", err)
	}
	return Register(ctx, op, rediscluster.New(op.Renderer, images, servers, op.Parts.Client, op.GetAPIReader()))
}

// registerBackups makes an operator carry out DataBackups and DataRestores, once their CRDs are installed.
func registerBackups(ctx context.Context, op *Operator) error {
	if err := Register(ctx, op, databackup.New(op.Parts.Client, op.GetAPIReader())); err != nil {
		return err
	}
	return Register(ctx, op, datarestore.New(op.Parts.Client, op.GetAPIReader()))
}

// registerEtcd makes an operator carry out EtcdClusters, once their CRD is installed.
func registerEtcd(ctx context.Context, op *Operator, images etcdcluster.Images) error {
	return Register(ctx, op, etcdcluster.New(op.Renderer, images, etcdserver.New(op.options.Etcd), op.Parts.Client, op.GetAPIReader()))
}

// Register makes an operator carry out the resources of a kind: from its start, or else as soon as
// the API server serves the kind.
func Register[T client.Object, W any](ctx context.Context, op *Operator, kind kinds.Kind[T, W]) error {
	gvk := kind.GVK()
	return op.whenServed(ctx, gvk, func(ctx context.Context) error {
		series := metrics.SeriesOf(gvk.Kind)
		r := controller.New(kind, series, op.Parts)
		err := r.SetupWithManager(op, controller.Options{
			MaxConcurrentReconciles: op.options.MaxConcurrentReconciles, SkipNameValidation: op.options.SkipNameValidation,
		})
		if err != nil {
			return fmt.Errorf("set up the controller of %s: %w", gvk.Kind, err)
		}
		if err := op.Add(&show[T, W]{op: op, kind: kind, series: series}); err != nil {
			return fmt.Errorf("show the metrics of %s: %w", gvk.Kind, err)
		}
		parent, ok := kind.(kinds.Parent)
		if !ok {
			return nil
		}
		for _, child := range parent.Children() {
			err := op.whenServed(ctx, child, func(ctx context.Context) error {
				if err := kube.AddOwnerIndex(ctx, op.GetFieldIndexer(), child); err != nil {
					return err
				}
				return r.WatchChildren(op.GetCache(), child)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// whenServed calls a function as soon as the API server serves a kind: at once, or after the start.
func (op *Operator) whenServed(ctx context.Context, gvk schema.GroupVersionKind, start func(context.Context) error) error {
	if isServed(op.GetRESTMapper(), gvk) {
		return start(ctx)
	}
	return op.Add(&latecomer{mapper: op.GetRESTMapper(), gvk: gvk, start: start})
}

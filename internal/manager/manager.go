// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager is the operator's process: scheme, cache, probes, metrics,
// leader election.
package manager

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/controller"
	"d3os.com/d3os-operator/internal/engine"
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
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/upgradeable"
)

const (
	leaseName = "d3os-operator.d3os-product.com.d3os"

	// reconcileTimeout ends a reconciliation whose requests hang; it is then tried again.
	reconcileTimeout = 2 * time.Minute
)

// Scheme knows the kinds that the operator reads with Go types.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, dsv1.AddToScheme, redisv1.AddToScheme, etcdv1.AddToScheme, backupv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// Operator is the process, ready to start.
type Operator struct {
	ctrl.Manager

	// Renderer renders charts for the version of Kubernetes that the cluster has.
	Renderer *render.Renderer

	// Parts are what the controllers of all kinds share. A kind reads and writes with their Client,
	// which waits for the cache no longer than is good; a test may put another Lease there before it
	// registers a kind.
	Parts controller.Parts

	applier *apply.Applier
	options Options
}

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
	platforms := dataservice.New(plan.NewPlanner(op.Renderer, o.Images), credentials.NewKeeper(), originals)
	if err := awaitServed(ctx, op.GetRESTMapper(), platforms.GVK()); err != nil {
		return nil, err
	}
	if err := Register(ctx, op, platforms); err != nil {
		return nil, err
	}
	if err := registerRedis(ctx, op, o.Images[rediscluster.ImageName]); err != nil {
		return nil, err
	}
	if err := registerBackups(ctx, op); err != nil {
		return nil, err
	}
	images := etcdcluster.Images{Etcd: o.Images[etcdcluster.ImageName], Agent: o.Images[values.AgentImage]}
	if images.Agent == guard.UnknownImage {
		images.Agent = ""
	}
	if err := registerEtcd(ctx, op, images); err != nil {
		return nil, err
	}
	if err := upgradeable.SetupWithManager(op, o.SkipNameValidation); err != nil {
		return nil, err
	}
	return op, nil
}

// registerRedis makes an operator carry out RedisClusters, once their CRD is installed.
func registerRedis(ctx context.Context, op *Operator, image string) error {
	servers := server.New(op.options.Redis)
	closeAtEnd := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		servers.Close()
		return nil
	})
	if err := op.Add(closeAtEnd); err != nil {
		return fmt.Errorf("add the connections to Redis: %w", err)
	}
	return Register(ctx, op, rediscluster.New(op.Renderer, image, servers, op.Parts.Client, op.GetAPIReader()))
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

// NewWithoutKinds returns an operator that carries out nothing until kinds are registered.
func NewWithoutKinds(ctx context.Context, cfg *rest.Config, o Options) (*Operator, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "d3os-operator/" + o.Version
	cfg.QPS = -1 // the API server's priority and fairness decides
	cfg.Wrap(kube.Escape)
	mgr, lease, err := kube.NewManager(cfg, managerOptions(scheme, o))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"ping": mgr.AddHealthzCheck, "ready": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("add the %s check: %w", name, err)
		}
	}
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), object.Kinds); err != nil {
		return nil, err
	}
	renderer, err := newRenderer(cfg, scheme)
	if err != nil {
		return nil, err
	}
	types, err := apply.NewTypes(crd.Files)
	if err != nil {
		return nil, err
	}
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("set up a client without a cache: %w", err)
	}
	c := kube.NewClient(mgr.GetClient(), mgr.GetAPIReader())
	applier := apply.New(c, mgr.GetAPIReader(), types, o.Version)
	applier.RetryRefused(o.RetryRefused)
	return &Operator{
		Manager: mgr, Renderer: renderer, applier: applier, options: o,
		Parts: controller.Parts{
			Client: c, Engine: engine.New(c, applier), Lease: lease,
			Recorder: mgr.GetEventRecorder("d3os-operator"), RetryRefused: o.RetryRefused, Live: live, Version: o.Version, MaxRollouts: o.MaxRollouts,
		},
	}, nil
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

// Run starts the operator and returns when the context ends or something fails.
func Run(ctx context.Context, o Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	if o.Images, err = withAgent(ctx, cfg, o.Images, os.Getenv); err != nil {
		return err
	}
	mgr, err := New(ctx, cfg, o)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", o.Version)
	return mgr.Start(ctx)
}

func newRenderer(cfg *rest.Config, scheme *runtime.Scheme) (*render.Renderer, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	server, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	return render.NewFrom(helmcharts.FS, server.GitVersion, scheme)
}

func managerOptions(scheme *runtime.Scheme, o Options) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: o.MetricsBindAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:  scheme,
		Cache:   kube.CacheOptions(append(slices.Clone(object.Kinds), object.JobKind), o.WatchNamespaces, o.ResyncPeriod),
		Metrics: metrics,
		Client: client.Options{Cache: &client.CacheOptions{
			Unstructured: true,
			// The operator decides from the cache alone; without this it would write again what
			// it has just written.
			EnableReadYourWritesConsistency: ptr.To(true),
		}},
		HealthProbeBindAddress:        o.ProbeBindAddress,
		PprofBindAddress:              o.PprofBindAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
		Controller: config.Controller{
			EnableWarmup:          ptr.To(true), // a standby takes over with a full cache
			ReconciliationTimeout: reconcileTimeout,
		},
	}
}

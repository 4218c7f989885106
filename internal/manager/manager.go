// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager is the operator's process: scheme, cache, probes, metrics,
// leader election. It imports the API of every kind, because it puts their Go
// types into the scheme and registers them.
package manager

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
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
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

const (
	leaseName = "d3os-operator.d3os-product.com.d3os"

	// reconcileTimeout ends a reconciliation whose requests hang; it is then tried again.
	reconcileTimeout = 2 * time.Minute
)

// readTypes reads the schemas of the embedded CRDs, once in a process. Measured: 80 ms of processor time, which the tests, where
// one process starts 60 operators, would spend for each.
var readTypes = sync.OnceValues(func() (*apply.Types, error) { return apply.NewTypes(crd.Files) })

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
	refusals := kube.NewRefusals()
	mgr, lease, err := kube.NewManager(cfg, managerOptions(scheme, o, refusals))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"ping": mgr.AddHealthzCheck, "ready": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("add the %s check: %w", name, err)
		}
	}
	if err := mgr.AddReadyzCheck("rights", refusals.Check); err != nil {
		return nil, fmt.Errorf("add the rights check: %w", err)
	}
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), object.Kinds); err != nil {
		return nil, err
	}
	renderer, err := newRenderer(cfg, scheme)
	if err != nil {
		return nil, err
	}
	types, err := readTypes()
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

func managerOptions(scheme *runtime.Scheme, o Options, refusals *kube.Refusals) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: o.MetricsBindAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:  scheme,
		Cache:   kube.CacheOptions(append(slices.Clone(object.Kinds), object.JobKind), o.WatchNamespaces, o.ResyncPeriod, refusals),
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

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager is the operator's process: scheme, cache, probes, metrics,
// leader election.
package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
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

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/controller"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/upgradeable"
)

const (
	leaseName = "d3os-operator.d3os-product.com.d3os"

	// reconcileTimeout ends a reconciliation whose requests hang; it is then tried again.
	reconcileTimeout = 2 * time.Minute

	// The process ends, and is started again, when DataServices are not served by then.
	resourcePatience = 30 * time.Second
	resourcePoll     = 200 * time.Millisecond
)

// Scheme knows the kinds that the operator reads with Go types.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, dsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// New returns the operator for the cluster of a configuration, ready to start.
func New(ctx context.Context, cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "d3os-operator/" + o.Version
	cfg.QPS = -1 // the API server's priority and fairness decides
	cfg.Wrap(kube.Escape)
	mgr, err := kube.NewManager(cfg, managerOptions(scheme, o))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := awaitResource(ctx, mgr.GetRESTMapper()); err != nil {
		return nil, err
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"ping": mgr.AddHealthzCheck, "ready": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("add the %s check: %w", name, err)
		}
	}
	planner, err := newPlanner(cfg, o)
	if err != nil {
		return nil, err
	}
	c := kube.NewClient(mgr.GetClient(), mgr.GetAPIReader())
	r := controller.New(c, mgr.GetAPIReader(), planner, mgr.GetEventRecorder("d3os-operator"), o.Version)
	originals, err := kube.AddOriginals(mgr, o.WatchNamespaces)
	if err != nil {
		return nil, err
	}
	r.SeeOriginals(originals)
	err = r.SetupWithManager(ctx, mgr, controller.Options{
		MaxConcurrentReconciles: o.MaxConcurrentReconciles, SkipNameValidation: o.SkipNameValidation,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the controller: %w", err)
	}
	if err := upgradeable.SetupWithManager(mgr, o.SkipNameValidation); err != nil {
		return nil, err
	}
	return mgr, nil
}

// awaitResource waits until the API server serves DataServices: it may have got their CRD in the
// same moment as this process.
func awaitResource(ctx context.Context, mapper meta.RESTMapper) error {
	gvk := dsv1.GroupVersion.WithKind(dsv1.Kind)
	var last error
	err := wait.PollUntilContextTimeout(ctx, resourcePoll, resourcePatience, true, func(context.Context) (bool, error) {
		_, last = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server to serve %s (is the CRD installed?): %w", gvk, errors.Join(last, err))
	}
	return nil
}

// Run starts the operator and returns when the context ends or something fails.
func Run(ctx context.Context, o Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	mgr, err := New(ctx, cfg, o)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", o.Version)
	return mgr.Start(ctx)
}

func newPlanner(cfg *rest.Config, o Options) (*plan.Planner, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	server, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	renderer, err := render.New(server.GitVersion)
	if err != nil {
		return nil, err
	}
	return plan.NewPlanner(renderer, o.Images), nil
}

func managerOptions(scheme *runtime.Scheme, o Options) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: o.MetricsBindAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:  scheme,
		Cache:   kube.CacheOptions(object.Kinds, o.WatchNamespaces, o.ResyncPeriod),
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

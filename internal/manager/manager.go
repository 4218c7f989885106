// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager is the operator's process: scheme, cache, probes, metrics and leader election. It imports the API of every kind, because
// it adds their Go types to the scheme and registers them.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appv1 "d3os.com/d3os-operator/api/app/v1"
	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	modelv1 "d3os.com/d3os-operator/api/model/v1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	stablev1 "d3os.com/d3os-operator/api/stable/v1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/compat"
	"d3os.com/d3os-operator/config/crd"
	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

const (
	leaseName = "d3os-operator.d3os-product.com.d3os"

	// reconcileTimeout cancels a reconciliation whose requests hang. The reconciliation is then retried.
	reconcileTimeout = 2 * time.Minute
)

// readTypes reads the schemas of the embedded CRDs once per process. Reading takes 80 ms of processor time (measured), and tests run 60
// operators in one process.
var readTypes = sync.OnceValues(func() (*apply.Types, error) { return apply.NewTypes(crd.Files) })

// readFields reads the fields of the embedded CRDs once per process.
var readFields = sync.OnceValues(func() (map[schema.GroupVersionKind]*fieldTree, error) { return fieldsOf(crd.Files, compat.Files) })

// Scheme returns the Go types that the operator reads.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, dsv1.AddToScheme, redisv1.AddToScheme, etcdv1.AddToScheme, mysqlv1.AddToScheme, backupv1.AddToScheme,
		appv1.AddToScheme, modelv1.AddToScheme, stablev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// Operator is an operator process before its start.
type Operator struct {
	ctrl.Manager

	// Renderer renders charts for the cluster's version of Kubernetes.
	Renderer *render.Renderer

	// Parts contains the clients and settings of the controllers of all kinds. Kinds read and write by Parts.Client,
	// whose reads do not wait long for the cache. A test may set another Lease before it registers a kind.
	Parts reconcile.Parts

	applier     *apply.Applier
	options     Options
	lists       *kube.Lists
	definitions *definitions
	readiness   *readiness
	namespaces  *namespaces
	stopped     chan struct{} // closed when the context of Start ends
}

// NewWithoutKinds returns an operator that reconciles nothing until kinds are registered.
func NewWithoutKinds(ctx context.Context, cfg *rest.Config, o Options) (*Operator, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "d3os-operator/" + o.Version
	cfg.QPS = -1 // no client-side limit: the API server limits requests
	cfg.Wrap(kube.Escape)
	unwatched, err := checkNamespaces(ctx, cfg, scheme, &o)
	if err != nil {
		return nil, err
	}
	lists := kube.NewLists()
	stopped := make(chan struct{})
	options := managerOptions(scheme, o, lists)
	options.NewCache = kube.Stoppable(stopped)
	mgr, lease, err := kube.NewManager(cfg, options)
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
	asked, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("set up discovery: %w", err)
	}
	renderer, err := newRenderer(asked, scheme)
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
	recorder := mgr.GetEventRecorder("d3os-operator")
	defined := newDefinitions(readFields, asked.OpenAPIV3(), o.Version)
	ready := &readiness{
		sources: map[string]func() []string{"cache": lists.Problems, "definitions": defined.Problems, "namespaces": unwatched.Problems}, logged: map[string]time.Time{},
		reader: mgr.GetAPIReader(), recorder: recorder, pod: client.ObjectKey{Namespace: o.Namespace, Name: o.PodName},
	}
	for source := range ready.sources {
		if err := mgr.AddReadyzCheck(source, ready.check(source)); err != nil {
			return nil, fmt.Errorf("add the %s check: %w", source, err)
		}
	}
	return &Operator{
		Manager: mgr, Renderer: renderer, applier: applier, options: o, lists: lists, definitions: defined, readiness: ready, namespaces: unwatched, stopped: stopped,
		Parts: reconcile.Parts{
			Client: c, Engine: reconcile.NewEngine(c, applier), Lease: lease,
			Recorder: recorder, RetryRefused: o.RetryRefused, Live: live, Version: o.Version, MaxRollouts: o.MaxRollouts,
			Heavy: reconcile.NewHeavy(),
		},
	}, nil
}

// Start starts the operator and reports the problems that prevent its work, even while it waits for its caches. It returns ErrRights when
// the operator gets rights in a namespace that it does not watch yet.
func (op *Operator) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { op.readiness.run(ctx) })
	reports.Go(func() { op.definitions.run(ctx) })
	var rights error
	reports.Go(func() {
		if rights = op.namespaces.await(ctx, op.options.RightsPoll); rights != nil {
			cancel()
		}
	})
	defer op.namespaces.close()
	defer context.AfterFunc(ctx, func() { close(op.stopped) })()
	err := op.Manager.Start(ctx)
	cancel()
	reports.Wait()
	return cmp.Or(err, rights) // the process must end after a failure
}

// Run starts the operator. It returns when the context ends or after a failure.
func Run(ctx context.Context, o Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	if o.Images, err = withAgent(ctx, cfg, o.Images, os.Getenv); err != nil {
		return err
	}
	for {
		mgr, err := New(ctx, cfg, o)
		if err != nil {
			return err
		}
		ctrl.Log.Info("starting", "version", o.Version)
		if err := mgr.Start(ctx); !errors.Is(err, ErrRights) || ctx.Err() != nil {
			return err
		}
		o.SkipNameValidation = true // an earlier operator has registered controllers with these names
	}
}

// checkNamespaces removes the namespaces without rights from the watched namespaces in the options.
func checkNamespaces(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, o *Options) (*namespaces, error) {
	reader, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("set up a client to check rights: %w", err)
	}
	var unwatched *namespaces
	unwatched, o.WatchNamespaces = newNamespaces(ctx, reader, o.WatchNamespaces)
	return unwatched, nil
}

func newRenderer(asked discovery.ServerVersionInterface, scheme *runtime.Scheme) (*render.Renderer, error) {
	server, err := asked.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	return render.NewFrom(helmcharts.FS, server.GitVersion, scheme)
}

func managerOptions(scheme *runtime.Scheme, o Options, lists *kube.Lists) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: o.MetricsBindAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:  scheme,
		Cache:   kube.CacheOptions(append(slices.Clone(object.Kinds), object.JobKind), o.WatchNamespaces, o.ResyncPeriod, lists),
		Metrics: metrics,
		Client: client.Options{Cache: &client.CacheOptions{
			Unstructured: true,
			// The operator decides only from the cache. Without this option, it would repeat its last writes.
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
			EnableWarmup:          ptr.To(true), // a standby becomes leader with a full cache
			ReconciliationTimeout: reconcileTimeout,
		},
	}
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/mysql/client"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// The operator writes only the status of a MySQLCluster. It needs the right to update finalizers because the API server may check that
// right when the operator sets owner references. It deletes pods so that their StatefulSet replaces them, annotates pods with tickets, and
// labels pods for the Service for reads.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=mysqlclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=mysqlclusters/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=mysqlclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;delete;patch

// Images holds values of the operator's configuration: images, and the namespace of the operator's pods.
type Images struct {
	// MySQL replaces the default image; empty for none.
	MySQL string
	// Agent is the operator's own image, which contains the agent. If it is empty, no database is planned.
	Agent string
	// Namespace is the namespace of the operator's pods, which NetworkPolicies admit; empty for the chart's default.
	Namespace string
}

// Options configure the kind. The zero value is for production.
type Options struct {
	// Tap intercepts the side effects of steps. Default: none.
	Tap Tap
	// Connect returns the members of a database. Default: Dial.
	Connect Connect
	// WellFor is the time for which a replaced pod must be ready without a restart before the next pod is replaced. Default: 0.
	WellFor time.Duration
}

// Kind implements the kind MySQLCluster.
type Kind struct {
	planner *planner
	client  k8sclient.Client
	live    k8sclient.Reader
	jobs    backup.Reader
	options Options
	now     func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]*memory
}

// memory holds observations of a database from earlier passes. A new operator has no memory.
type memory struct {
	client.Observer

	uid types.UID
	// unwritable is the time at which the primary stopped being writable; zero while it is writable.
	unwritable time.Time
	// failing is the failure of the last step, and failingSince the time since which steps have failed without a
	// success in between. Both are empty after a success.
	failing      string
	failingSince time.Time
}

var _ reconcile.Kind[*mysqlv1.MySQLCluster, Observation] = &Kind{}

// New returns the kind. c is the operator's cached client; live reads from the API server.
func New(renderer *render.Renderer, images Images, options Options, c k8sclient.Client, live k8sclient.Reader) *Kind {
	if options.Connect == nil {
		options.Connect = Dial
	}
	return &Kind{
		planner: newPlanner(renderer, images, time.Now), client: c, live: live, jobs: backup.Reader{Client: c, Live: live},
		options: options, now: time.Now, known: map[types.NamespacedName]*memory{},
	}
}

// GVK returns the group, version and kind of MySQLCluster.
func (*Kind) GVK() schema.GroupVersionKind { return mysqlv1.GroupVersion.WithKind(mysqlv1.Kind) }

// New returns an empty MySQLCluster.
func (*Kind) New() *mysqlv1.MySQLCluster { return &mysqlv1.MySQLCluster{} }

// Paused returns spec.paused.
func (*Kind) Paused(mc *mysqlv1.MySQLCluster) bool { return mc.Spec.Paused }

// Plan returns the objects of a database as one part.
func (k *Kind) Plan(mc *mysqlv1.MySQLCluster, in reconcile.Inputs, _ *Observation) (*reconcile.Plan, error) {
	return k.planner.plan(mc, reconcile.OwnerOf(k, mc), in)
}

// Forget drops the plan, the Secrets and the memory of a database.
func (k *Kind) Forget(namespace, name string) {
	k.planner.forget(namespace, name)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, types.NamespacedName{Namespace: namespace, Name: name})
}

// remember returns the memory about a database. A recreated database of the same name gets a new memory. Callers use it without a lock,
// because the passes of a resource never overlap.
func (k *Kind) remember(mc *mysqlv1.MySQLCluster) *memory {
	key := k8sclient.ObjectKeyFromObject(mc)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known[key] == nil || k.known[key].uid != mc.UID {
		k.known[key] = &memory{uid: mc.UID}
	}
	return k.known[key]
}

// Observe reads the objects of a database from the cache, and queries the agent in every pod.
func (k *Kind) Observe(ctx context.Context, mc *mysqlv1.MySQLCluster, _ reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) error {
	obs.Problems, obs.reach = map[string]string{}, k.planner.keeper.reach(mc)
	if err := k.see(ctx, mc, pods, obs); err != nil {
		return err
	}
	past := k.remember(mc)
	past.MaxLag = maxLag(&mc.Spec)
	var all []client.Pod
	for i := range obs.pods {
		all = append(all, obs.pods[i].Pod)
	}
	now := k.now()
	limit := func(ordinal int) time.Duration { return past.Patience(ordinal, now) }
	obs.Looks = lookAt(ctx, k.options.Connect(obs.reach), obs.reach, all, obs.record.Primary.Ordinal, limit)
	now = k.now()
	obs.Observation = past.Observe(obs.record, obs.Looks, now)
	obs.explain(mc.Name)
	past.see(obs, now)
	var err error
	obs.backups, err = k.seeBackups(ctx, mc, pods)
	return err
}

// failureLasts is the time for which steps must fail before the status reports the failure. A single failure is common:
// facts often change between a decision and its step.
const failureLasts = 3 * time.Second

// see records the time at which the primary stopped being writable, and adds failures of steps to the observation.
func (m *memory) see(obs *Observation, now time.Time) {
	if obs.Failing = m.failing; obs.Failing != "" && now.Sub(m.failingSince) >= failureLasts {
		obs.Failure = obs.Failing
	}
	served := obs.isServed()
	if !served && m.unwritable.IsZero() {
		m.unwritable = now
	}
	if obs.Unwritable = m.unwritable; served {
		m.unwritable = time.Time{}
	}
}

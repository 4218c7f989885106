// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd implements the kind EtcdCluster: a cluster of voting etcd members. A pass plans one StatefulSet, queries every member
// (package server), decides (package membership), and runs one step.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// The operator writes only the status of an EtcdCluster. It needs the right to update finalizers because the API server may check that right
// when owner references are set. It deletes pods so that their StatefulSet replaces them, and annotates pods with tickets.
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters/status,verbs=patch
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;delete;patch

// Images holds values of the operator's configuration: images, and the namespace of the operator's pods.
type Images struct {
	// Etcd replaces the default image of etcd; empty for the default version of gcr.io/etcd-development/etcd.
	Etcd string
	// Agent is the operator's image, which contains the agent. If it is empty, no cluster is planned.
	Agent string
	// Namespace is the namespace of the operator's pods, which NetworkPolicies admit; empty for the chart's default.
	Namespace string
}

// Kind implements the kind EtcdCluster.
type Kind struct {
	planner  *planner
	servers  *server.Servers
	client   client.Client
	live     client.Reader
	jobs     backup.Reader
	accounts *accounts
	now      func() time.Time
	wellFor  time.Duration // time for which a replaced pod must be ready before the next one is replaced
}

var (
	_ reconcile.Kind[*etcdv1.EtcdCluster, Observation]       = &Kind{}
	_ reconcile.Maintainer[*etcdv1.EtcdCluster, Observation] = &Kind{}
)

// New returns the kind. c is the operator's cached client; live reads from the API server. wellFor is the time for which a replaced pod
// must be ready without a restart before the next pod is replaced.
func New(renderer *render.Renderer, images Images, servers *server.Servers, c client.Client, live client.Reader, wellFor time.Duration) *Kind {
	return &Kind{
		wellFor: wellFor, planner: newPlanner(renderer, images, time.Now), servers: servers, client: c, live: live, jobs: backup.Reader{Client: c, Live: live}, accounts: newAccounts(c, live), now: time.Now,
	}
}

// GVK returns the group, version and kind of EtcdCluster.
func (*Kind) GVK() schema.GroupVersionKind { return etcdv1.GroupVersion.WithKind(etcdv1.Kind) }

// New returns an empty EtcdCluster.
func (*Kind) New() *etcdv1.EtcdCluster { return &etcdv1.EtcdCluster{} }

// Paused returns spec.paused.
func (*Kind) Paused(ec *etcdv1.EtcdCluster) bool { return ec.Spec.Paused }

// Forget drops the plan, the certificates and the failed steps of a cluster from the caches.
func (k *Kind) Forget(namespace, name string) {
	k.planner.forget(namespace, name)
	k.accounts.forget(namespace, name)
	k.servers.Forget(clusterKey(namespace, name))
}

func clusterKey(namespace, name string) string { return namespace + "/" + name }

// Plan returns the objects of a cluster as one part. For refused fields of the spec, Plan and the later calls in the
// pass use the present values.
func (k *Kind) Plan(ec *etcdv1.EtcdCluster, in reconcile.Inputs, obs *Observation) (plan *reconcile.Plan, err error) {
	if obs.accepted, obs.refused, err = accepted(ec, reconcile.OwnerOf(k, ec), in); err != nil {
		return nil, err
	}
	return k.planner.plan(obs.accepted, reconcile.OwnerOf(k, ec), in)
}

// Maintain stores the refusal of the spec in the observation, and reports whether the StatefulSet of the cluster exists. If so, the operator
// continues to repair members.
func (k *Kind) Maintain(ec *etcdv1.EtcdCluster, in reconcile.Inputs, refusal *reconcile.SpecError, obs *Observation) (bool, error) {
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if live == nil || err != nil {
		return false, err
	}
	if obs.refused != nil {
		refusal = &reconcile.SpecError{Reason: obs.refused.Reason, Err: errors.Join(obs.refused, refusal)}
	}
	obs.refused, obs.unplanned = refusal, true
	return true, nil
}

// Observe reads the cluster's objects, pods and claims, and queries every pod.
func (k *Kind) Observe(ctx context.Context, ec *etcdv1.EtcdCluster, _ reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) error {
	ec = obs.of(ec)
	obs.Problems, obs.others = map[string]string{}, map[string]string{}
	if err := k.see(ctx, ec, pods, obs); err != nil {
		return err
	}
	account, err := k.accounts.of(ctx, ec)
	if err != nil {
		return fmt.Errorf("read the certificates of %s: %w", ec.Name, err)
	}
	obs.access, obs.certificates = account.access, account.certificates
	if obs.access.Authorities, obs.View.Authorities, err = k.seeAuthorities(ctx, ec, obs.View.Record.Authority); err != nil {
		return err
	}
	k.servers.Read(ctx, obs.access, obs.View.Pods, wanted(ec).PeerURLs)
	obs.View.Failures = k.servers.Failures(clusterKey(ec.Namespace, ec.Name))
	for i := range obs.View.Failures {
		obs.View.Failures[i].Cause = health.Refusal(obs.View.Failures[i].Cause)
	}
	obs.outlive()
	obs.backups, err = backupsOf(ec).See(ctx, pods, k.jobs, reconcile.OwnerOf(k, ec))
	return err
}

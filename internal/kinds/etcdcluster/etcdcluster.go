// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdcluster is the kind EtcdCluster: members of etcd that vote. It
// plans one StatefulSet, asks every member what it is and what it sees (package
// server), and takes the steps that follow from that (package membership), one
// in each pass.
package etcdcluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/render"
)

// The operator never writes an EtcdCluster but its status. Nothing shows the right to finalizers: the API
// server asks for it where owner references need rights. A pod is deleted so that its StatefulSet replaces
// it, and annotated with a ticket.
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters/status,verbs=patch
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;delete;patch

// Images are those that the operator uses by itself.
type Images struct {
	// Etcd stands for the default image of etcd; empty for gcr.io/etcd-development/etcd of the default version.
	Etcd string
	// Agent is the operator's own image, which has the agent. Without it no cluster is planned.
	Agent string
	// Namespace is where the operator's pods run, which NetworkPolicies admit; empty for the chart's.
	Namespace string
}

// Kind is the kind EtcdCluster.
type Kind struct {
	planner  *planner
	servers  *server.Servers
	client   client.Client
	live     client.Reader
	jobs     agentjob.Reader
	accounts *accounts
	now      func() time.Time
}

var _ kinds.Kind[*etcdv1.EtcdCluster, World] = &Kind{}

// New returns the kind. The client is the operator's cached one; live reads from the API server.
func New(renderer *render.Renderer, images Images, servers *server.Servers, c client.Client, live client.Reader) *Kind {
	return &Kind{
		planner: newPlanner(renderer, images, time.Now), servers: servers, client: c, live: live, jobs: agentjob.Reader{Client: c, Live: live}, accounts: newAccounts(c, live), now: time.Now,
	}
}

// GVK is EtcdCluster of the API's version.
func (*Kind) GVK() schema.GroupVersionKind { return etcdv1.GroupVersion.WithKind(etcdv1.Kind) }

// New returns an empty EtcdCluster.
func (*Kind) New() *etcdv1.EtcdCluster { return &etcdv1.EtcdCluster{} }

// Paused is spec.paused.
func (*Kind) Paused(ec *etcdv1.EtcdCluster) bool { return ec.Spec.Paused }

// Forget drops the plan and the certificates of a cluster.
func (k *Kind) Forget(namespace, name string) {
	k.planner.forget(namespace, name)
	k.accounts.forget(namespace, name)
}

// Plan returns the objects of a cluster, as one part.
func (k *Kind) Plan(ec *etcdv1.EtcdCluster, in kinds.Inputs) (*engine.Plan, error) {
	return k.planner.plan(ec, kinds.OwnerOf(k, ec), in)
}

// Observe asks every pod of the cluster what it is and what it sees.
func (k *Kind) Observe(ctx context.Context, ec *etcdv1.EtcdCluster, _ engine.Seen, pods kinds.Pods) (World, error) {
	w := World{Problems: map[string]string{}}
	if err := k.see(ctx, ec, pods, &w); err != nil {
		return w, err
	}
	account, err := k.accounts.of(ctx, ec)
	if err != nil {
		return w, fmt.Errorf("read the certificates of %s: %w", ec.Name, err)
	}
	w.access, w.certificates = account.access, account.certificates
	if w.access.Authorities, w.View.Authorities, err = k.seeAuthorities(ctx, ec); err != nil {
		return w, err
	}
	k.servers.Read(ctx, w.access, w.View.Pods, wanted(ec).PeerURLs)
	w.backups, err = backupsOf(ec).See(ctx, pods, k.jobs, kinds.OwnerOf(k, ec))
	return w, err
}

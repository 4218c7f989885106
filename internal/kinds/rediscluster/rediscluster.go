// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediscluster is the kind RedisCluster: shards of Redis servers that
// serve 16,384 hash slots together. It plans one StatefulSet for each shard,
// asks every server what it is and what it sees (package server), and takes
// the steps that follow from that (package topology), one in each pass.
package rediscluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/render"
)

// The operator never writes a RedisCluster but its status. Nothing shows the right to finalizers: the API
// server asks for it where owner references need rights. A pod is deleted so that its StatefulSet
// replaces it.
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters/status,verbs=patch
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;delete

// atRest is how often the servers of a cluster are asked while nothing is to be done.
const atRest = 30 * time.Second

// Kind is the kind RedisCluster.
type Kind struct {
	planner  *planner
	servers  *server.Servers
	client   client.Client
	live     client.Reader
	jobs     agentjob.Reader
	accounts *accounts
	sources  *sources
}

var _ kinds.Kind[*redisv1.RedisCluster, World] = &Kind{}

// Images are those that the operator uses by itself.
type Images struct {
	// Redis stands for the default image of Redis; empty for the chart's.
	Redis string
	// Agent is the operator's own image, which has the agent. Without it nothing is backed up or restored.
	Agent string
	// Namespace is where the operator's pods run, which NetworkPolicies admit; empty for the chart's.
	Namespace string
}

// New returns the kind. The client is the operator's cached one; live reads from the API server.
func New(renderer *render.Renderer, images Images, servers *server.Servers, c client.Client, live client.Reader) *Kind {
	return &Kind{planner: newPlanner(renderer, images, random), servers: servers, client: c, live: live, jobs: agentjob.Reader{Client: c, Live: live}, accounts: newAccounts(c, live), sources: newSources(live)}
}

// GVK is RedisCluster of the API's version.
func (*Kind) GVK() schema.GroupVersionKind { return redisv1.GroupVersion.WithKind(redisv1.Kind) }

// New returns an empty RedisCluster.
func (*Kind) New() *redisv1.RedisCluster { return &redisv1.RedisCluster{} }

// Paused is spec.pause.
func (*Kind) Paused(rc *redisv1.RedisCluster) bool { return rc.Spec.Pause }

// Forget drops the plan, the password and the connections of a cluster.
func (k *Kind) Forget(namespace, name string) {
	k.planner.forget(namespace, name)
	key := types.NamespacedName{Namespace: namespace, Name: name}
	k.accounts.forget(key)
	k.sources.forget(key)
	metrics.Redis.Forget(key)
	k.servers.Forget(clusterKey(namespace, name))
}

func clusterKey(namespace, name string) string { return namespace + "/" + name }

// Plan returns the objects of a cluster, as one part.
func (k *Kind) Plan(rc *redisv1.RedisCluster, in kinds.Inputs) (*engine.Plan, error) {
	return k.planner.plan(rc, kinds.OwnerOf(k, rc), in)
}

// Decide says which steps follow from what was seen.
func (k *Kind) Decide(rc *redisv1.RedisCluster, _ engine.Seen, w World) kinds.Decision {
	decided := topology.Decide(wanted(rc, w.Announced), w.Record, w.Nodes)
	result := kinds.Decision{LookAgain: decided.LookAgain}
	for _, step := range decided.Steps {
		result.Steps = append(result.Steps, day2.Step{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error { return k.take(ctx, rc, w, step) },
		})
	}
	if result.LookAgain == 0 || w.Lagging {
		result.LookAgain = time.Second
	}
	if len(result.Steps) == 0 && decided.Model.Settled && !w.Lagging {
		result.LookAgain = atRest
	}
	result.Steps = append(result.Steps, runs.EndHeld(k.jobs, rc.Namespace, w.backups.Jobs)...)
	return result
}

// take takes a step. One that fails is decided about again; people hear of it when it goes on failing.
func (k *Kind) take(ctx context.Context, rc *redisv1.RedisCluster, w World, step topology.Step) error {
	err := k.servers.Take(ctx, server.Taking{
		Cluster: clusterKey(rc.Namespace, rc.Name), Access: w.access, Step: step, Pipeline: pipelineOf(&rc.Spec),
		Kubernetes: &cluster{Cluster: stateful.Cluster{Client: k.client, Live: k.live, Owner: kinds.OwnerOf(k, rc)}, record: w.recordAt, isNeverUp: step.Proof.NeverUp},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", day2.ErrAgain, err)
	}
	return nil
}

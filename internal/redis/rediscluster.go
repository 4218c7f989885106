// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis implements the kind RedisCluster: shards of Redis servers that serve 16,384 hash slots together. It plans one
// StatefulSet for each shard, queries every server (package server), decides (package topology), and runs one step in each pass.
package redis

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
	"d3os.com/d3os-operator/internal/render"
)

// The operator writes only the status of a RedisCluster. It needs the right to update finalizers because the API server may check that right
// when the operator sets owner references. It deletes pods so that their StatefulSet replaces them.
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters/status,verbs=patch
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;delete

// atRest is the interval between two queries of a settled cluster's servers.
const atRest = 30 * time.Second

// Kind implements the kind RedisCluster.
type Kind struct {
	planner  *planner
	servers  *server.Servers
	client   client.Client
	live     client.Reader
	jobs     backup.Reader
	accounts *accounts
	sources  *sources
	wellFor  time.Duration // time for which a replaced pod must be ready before the next pod is replaced
}

var (
	_ reconcile.Kind[*redisv1.RedisCluster, Observation]       = &Kind{}
	_ reconcile.Maintainer[*redisv1.RedisCluster, Observation] = &Kind{}
)

// Images holds values of the operator's configuration: images, and the namespace of the operator's pods.
type Images struct {
	// Redis is the image of Redis for a spec that names none. If it is empty, the default image is used (DefaultImages).
	Redis string
	// Agent is the operator's own image, which contains the agent. Without it no backup is made or restored.
	Agent string
	// Namespace is the namespace of the operator's pods, which NetworkPolicies admit; empty for the chart's default.
	Namespace string
}

// New returns the kind. The client is the operator's client with a cache; live reads from the API server. wellFor is the time for which a
// pod must have been ready without a restart before the next pod is replaced.
func New(renderer *render.Renderer, images Images, servers *server.Servers, c client.Client, live client.Reader, wellFor time.Duration) *Kind {
	return &Kind{wellFor: wellFor, planner: newPlanner(renderer, images, random), servers: servers, client: c, live: live, jobs: backup.Reader{Client: c, Live: live}, accounts: newAccounts(c, live), sources: newSources(live)}
}

// GVK returns the group, version and kind of RedisCluster.
func (*Kind) GVK() schema.GroupVersionKind { return redisv1.GroupVersion.WithKind(redisv1.Kind) }

// New returns an empty RedisCluster.
func (*Kind) New() *redisv1.RedisCluster { return &redisv1.RedisCluster{} }

// Paused returns spec.pause.
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
func (k *Kind) Plan(rc *redisv1.RedisCluster, in reconcile.Inputs, _ *Observation) (*reconcile.Plan, error) {
	return k.planner.plan(rc, reconcile.OwnerOf(k, rc), in)
}

// Maintain stores the refusal of the spec in the observation, and reports whether the cluster has a StatefulSet. If so, the operator
// continues to repair its servers.
func (k *Kind) Maintain(rc *redisv1.RedisCluster, in reconcile.Inputs, refusal *reconcile.SpecError, obs *Observation) (bool, error) {
	record, err := records.Planned(in, reconcile.OwnerOf(k, rc))
	if err != nil {
		return false, err
	}
	for shard := range max(len(wantedShards(&rc.Spec)), len(record.Shards)) {
		set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, shard))
		if err != nil {
			return false, err
		}
		if set != nil {
			obs.refused = refusal
			return true, nil
		}
	}
	return false, nil
}

// Decide returns the steps that follow from an observation.
func (k *Kind) Decide(rc *redisv1.RedisCluster, _ reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	want := wanted(rc, obs.Announced)
	want.WellFor = k.wellFor
	decided := topology.Decide(want, obs.Record, obs.Nodes)
	obs.decided = decided
	result := reconcile.Decision{LookAgain: decided.LookAgain}
	for _, step := range decided.Steps {
		result.Steps = append(result.Steps, reconcile.Step{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error { return k.take(ctx, rc, obs, step) },
		})
	}
	if result.LookAgain == 0 || obs.Lagging {
		result.LookAgain = time.Second
	}
	if len(result.Steps) == 0 && decided.Model.Settled && !obs.Lagging {
		result.LookAgain = atRest
	}
	result.Steps = append(result.Steps, backup.EndHeld(k.jobs, rc.Namespace, obs.backups.Jobs)...)
	return result
}

// take runs a step. After a failed step, the next pass decides again. The status reports the failure if it repeats.
func (k *Kind) take(ctx context.Context, rc *redisv1.RedisCluster, obs *Observation, step topology.Step) error {
	err := k.servers.Take(ctx, server.Request{
		Cluster: clusterKey(rc.Namespace, rc.Name), Access: obs.access, Step: step, Pipeline: pipelineOf(&rc.Spec),
		Kubernetes: &cluster{Cluster: database.Cluster{Client: k.client, Live: k.live, Owner: reconcile.OwnerOf(k, rc)}, record: obs.recordAt,
			isNeverUp: step.Proof.NeverUp, isStuck: step.Proof.Stuck},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", reconcile.ErrAgain, err)
	}
	return nil
}

// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediscluster_test holds the operator with RedisClusters on a real API server against real
// redis-server processes, which run the chart's own scripts.
package rediscluster_test

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is how long anything may take that has no promise of its own; the machine may be busy.
const patience = 150 * time.Second

// full reports whether everything is tried: every step at which an operator can be killed, each field on its own, ten
// minutes at rest.
var full = os.Getenv("REDIS_TESTS") == "full"

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience }, Parallel: 2,
	Lists: append([]client.ObjectList{
		&dsv1.DataServiceList{}, &redisv1.RedisClusterList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.PodList{},
	}, stage.Backups...),
}

// agent is the path of the agent's program.
var agent string

func TestMain(m *testing.M) {
	os.Exit(suite.MainWithAgent(m, cluster.Options{Name: "rediscluster"}, &agent))
}
